//! `ops generate`: continues texts with a model.
use crate::args::{Common, GenerateArgs};
use crate::exit::{Failure, Outcome};
use crate::text::{self, Computing, Follower, Job, Prepare, Result};
use ops_core::Float;
use ops_core::model::Transformer;
use ops_models::Rank;
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
    let ask = Ask { common, args, stop };
    let computing = Computing {
        on: common.backend,
        dtype: args.running.dtype,
        determinism: args.determinism,
        rounding: args.sampling.activations,
        stats: args.running.stats,
    };
    let mut job = Generate { ask, out };
    text::run_on(&mut job, &ask, computing, &args.on.devices)
}

/// What is to be done.
#[derive(Clone, Copy)]
struct Ask<'g> {
    common: Common,
    args: &'g GenerateArgs,
    stop: &'g AtomicBool,
}

impl Follower for Ask<'_> {
    fn run<T: Float, B: Transformer<T>>(
        &self,
        name: &str,
        rank: &Rank<'_, B>,
        prepare: &Prepare<'_>,
    ) -> Result<()> {
        Job::run::<T, B>(&mut Generate { ask: *self, out: &mut std::io::sink() }, name, rank, prepare)
    }
}

struct Generate<'g> {
    ask: Ask<'g>,
    out: &'g mut dyn Write,
}

impl Job for Generate<'_> {
    type Output = ();

    fn run<T: Float, B: Transformer<T>>(
        &mut self,
        name: &str,
        rank: &Rank<'_, B>,
        prepare: &Prepare<'_>,
    ) -> Result<()> {
        let input = input::Input::new(rank, self.ask.common, self.ask.args)?;
        let mut terminal = Terminal { out: &mut *self.out, stop: self.ask.stop };
        run::generate::<T, B>(input, name, rank, prepare, &mut terminal)
    }
}
