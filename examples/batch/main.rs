//! Continues many texts at once, which join and leave at every step: `cargo run --release --example batch --
//! --prompts FILE`.
mod args;
mod input;
mod output;
mod run;
mod schedule;
mod stats;
#[cfg(test)]
mod tests;

use args::Args;
use clap::Parser;
use examples_shared::backend::{self, Job, Prepare};
use examples_shared::{Result, command};
use input::{Input, Lines};
use rocm_ops::Float;
use rocm_ops::model::Transformer;
use std::io::{BufRead, BufReader, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The input, output and stop signal of a run.
pub(crate) struct Terminal<'o> {
    /// Standard input. A thread reads it, because a step must not wait for the next line.
    pub(crate) input: Option<Box<dyn BufRead + Send>>,
    pub(crate) out: &'o mut dyn Write,
    pub(crate) stop: Arc<AtomicBool>,
}

fn main() -> ExitCode {
    #[cfg(feature = "rocm")]
    rocm_ops::rocm::compile_helper();
    let args = Args::parse();
    let stop = Arc::new(AtomicBool::new(false));
    let mut terminal = Terminal {
        input: Some(Box::new(BufReader::new(std::io::stdin()))),
        out: &mut std::io::stdout(),
        stop: stop.clone(),
    };
    let done = examples_shared::start(Some(&stop)).and_then(|()| run(&args, &mut terminal));
    command::end(done.map(|stats| match stats {
        _ if stop.load(Ordering::Relaxed) => 130,
        stats => u8::from(stats.faults > 0),
    }))
}

fn run(args: &Args, terminal: &mut Terminal<'_>) -> Result<stats::Stats> {
    let lines = Lines::open(args, terminal.input.take())?;
    let mut batch = Batch { args, lines, terminal };
    backend::run(&mut batch, args.computing())
}

struct Batch<'g, 'o> {
    args: &'g Args,
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
        let input = Input::new(self.args)?;
        run::serve::<T, B>(&input, name, (backend, prepare), &mut self.lines, self.terminal)
    }
}
