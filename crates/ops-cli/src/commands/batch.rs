//! `ops batch`: continues many texts at once, which join and leave at every step.
use crate::args::{BatchArgs, Common};
use crate::exit::{Failure, Outcome};
use crate::text::{self, Computing, Follower, Job, Prepare, Result};
use input::{Input, Lines};
use ops_core::Float;
use ops_core::model::Transformer;
use ops_models::Rank;
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
    let ask = Ask { common, args, stop: terminal.stop };
    let mut job = Batch { ask, lines: Some(lines), out: &mut *terminal.out };
    text::run_on(&mut job, &ask, computing, &args.on.devices)
}

/// What is to be done.
#[derive(Clone, Copy)]
struct Ask<'g> {
    common: Common,
    args: &'g BatchArgs,
    stop: &'g AtomicBool,
}

impl Follower for Ask<'_> {
    fn run<T: Float, B: Transformer<T>>(
        &self,
        name: &str,
        rank: &Rank<'_, B>,
        prepare: &Prepare<'_>,
    ) -> Result<()> {
        let mut job = Batch { ask: *self, lines: None, out: &mut std::io::sink() };
        Job::run::<T, B>(&mut job, name, rank, prepare).map(drop)
    }
}

struct Batch<'g> {
    ask: Ask<'g>,
    /// On rank 0.
    lines: Option<Lines>,
    out: &'g mut dyn Write,
}

impl Job for Batch<'_> {
    type Output = stats::Stats;

    fn run<T: Float, B: Transformer<T>>(
        &mut self,
        name: &str,
        rank: &Rank<'_, B>,
        prepare: &Prepare<'_>,
    ) -> Result<stats::Stats> {
        let input = Input::new(rank, self.ask.common, self.ask.args)?;
        let mut terminal = Terminal { out: &mut *self.out, stop: self.ask.stop };
        run::serve::<T, B>(input, name, (rank, prepare), self.lines.as_mut(), &mut terminal)
    }
}
