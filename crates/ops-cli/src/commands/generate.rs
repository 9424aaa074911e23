//! `ops generate`: continues texts with a model.
use crate::args::{Common, GenerateArgs};
use crate::exit::{Failure, Outcome};
use crate::text::{self, Computing, Job, Prepare, Result};
use ops_core::model::Transformer;
use ops_core::{Determinism, Float};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

mod input;
#[cfg(test)]
mod odd_files;
mod output;
mod run;
#[cfg(test)]
mod tests;

/// The output and stop signal of a run.
struct Terminal<'o> {
    out: &'o mut dyn Write,
    stop: &'o AtomicBool,
}

pub(super) fn run(
    common: Common,
    args: &GenerateArgs,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> std::result::Result<Outcome, Failure> {
    generate(common, args, stop, out)?;
    Ok(if stop.load(Ordering::Relaxed) { Outcome::Interrupted } else { Outcome::Fine })
}

fn generate(common: Common, args: &GenerateArgs, stop: &AtomicBool, out: &mut dyn Write) -> Result<()> {
    let computing = Computing {
        on: common.backend,
        dtype: args.running.dtype,
        determinism: Determinism::Run,
        rounding: args.sampling.activations,
        stats: args.running.stats,
    };
    text::run(&mut Generate { common, args, terminal: Terminal { out, stop } }, computing)
}

struct Generate<'g> {
    common: Common,
    args: &'g GenerateArgs,
    terminal: Terminal<'g>,
}

impl Job for Generate<'_> {
    type Output = ();

    fn run<T: Float, B: Transformer<T>>(
        &mut self,
        name: &str,
        backend: &B,
        prepare: &Prepare<'_>,
    ) -> Result<()> {
        let input = input::Input::new(self.common, self.args)?;
        run::generate::<T, B>(input, name, backend, prepare, &mut self.terminal)
    }
}
