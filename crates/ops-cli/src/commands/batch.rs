//! `ops batch`: continues many texts at once, which join and leave at every step.
use crate::args::{BatchArgs, Common};
use crate::exit::{Failure, Outcome};
use crate::text::{self, Computing, Job, Prepare, Result};
use input::{Input, Lines};
use ops_core::Float;
use ops_core::model::Transformer;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};

mod input;
mod output;
mod run;
mod stats;
#[cfg(test)]
mod tests;

/// Standard input. A thread reads it, because a step must not wait for the next line.
type Standard = Option<Box<dyn BufRead + Send>>;

/// The output and stop signal of a run.
struct Terminal<'o> {
    out: &'o mut dyn Write,
    stop: &'o AtomicBool,
}

pub(super) fn run(
    common: Common,
    args: &BatchArgs,
    standard: Standard,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> std::result::Result<Outcome, Failure> {
    let stats = serve(common, args, standard, &mut Terminal { out, stop })?;
    Ok(if stop.load(Ordering::Relaxed) { Outcome::Interrupted } else { Outcome::of(stats.faults == 0) })
}

fn serve(
    common: Common,
    args: &BatchArgs,
    standard: Standard,
    terminal: &mut Terminal<'_>,
) -> Result<stats::Stats> {
    let lines = Lines::open(args, standard)?;
    let computing = Computing {
        on: common.backend,
        dtype: args.running.dtype,
        determinism: args.determinism,
        rounding: args.sampling.activations,
        stats: args.running.stats,
    };
    text::run(&mut Batch { common, args, lines, terminal }, computing)
}

struct Batch<'g, 'o> {
    common: Common,
    args: &'g BatchArgs,
    lines: Lines,
    terminal: &'g mut Terminal<'o>,
}

impl Job for Batch<'_, '_> {
    type Output = stats::Stats;

    fn run<T: Float, B: Transformer<T>>(
        &mut self,
        name: &str,
        backend: &B,
        prepare: &Prepare<'_>,
    ) -> Result<stats::Stats> {
        let input = Input::new(self.common, self.args)?;
        run::serve::<T, B>(input, name, (backend, prepare), &mut self.lines, self.terminal)
    }
}
