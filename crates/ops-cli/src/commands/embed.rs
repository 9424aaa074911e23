//! `ops embed`: turns sentences into vectors.
use crate::args::{Common, EmbedArgs, Rounding};
use crate::exit::{Failure, Outcome};
use crate::text::{self, Computing, Job, Prepare, Result};
use input::Input;
use ops_core::model::Transformer;
use ops_core::{Determinism, Float};
use ops_models::Rank;
use std::io::{Read, Write};

mod input;
mod output;
mod run;
#[cfg(test)]
mod tests;

pub(super) fn run(
    common: Common,
    args: &EmbedArgs,
    standard: &mut dyn Read,
    out: &mut dyn Write,
) -> std::result::Result<Outcome, Failure> {
    embed(common, args, standard, out)?;
    Ok(Outcome::Fine)
}

fn embed(common: Common, args: &EmbedArgs, standard: &mut dyn Read, out: &mut dyn Write) -> Result<()> {
    if common.json && args.npy.is_some() {
        return Err("--npy: got --json too, wanted one of them".into());
    }
    let input = Input::new(common, args, standard)?;
    let computing = Computing {
        on: common.backend,
        dtype: args.running.dtype,
        determinism: Determinism::Run,
        // Encoders have no quantized weights.
        rounding: Rounding::Rounded,
        stats: args.running.stats,
    };
    let embeddings = text::run(&mut Embed(&input), computing)?;
    output::print(&input, &embeddings, out)?;
    Ok(out.flush()?)
}

struct Embed<'i>(&'i Input<'i>);

impl Job for Embed<'_> {
    type Output = Vec<Vec<f32>>;

    fn run<T: Float, B: Transformer<T>>(
        &mut self,
        name: &str,
        rank: &Rank<'_, B>,
        prepare: &Prepare<'_>,
    ) -> Result<Self::Output> {
        run::embed::<T, B>(self.0, name, rank.backend(), prepare)
    }
}
