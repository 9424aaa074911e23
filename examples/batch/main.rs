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
use examples_shared::Result;
use examples_shared::backend::{self, Job, Prepare};
use input::{Input, Lines};
use rocm_ops::Float;
use rocm_ops::model::Transformer;
use signal_hook::consts::SIGINT;
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
    match on_interrupt(&stop).and_then(|()| run(&args, &mut terminal)) {
        Ok(_) if stop.load(Ordering::Relaxed) => ExitCode::from(130),
        Ok(stats) if stats.refused > 0 => ExitCode::from(1),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Ctrl-C sets `stop`; once it is set, Ctrl-C ends the program.
fn on_interrupt(stop: &Arc<AtomicBool>) -> Result<()> {
    signal_hook::flag::register_conditional_shutdown(SIGINT, 130, stop.clone())?;
    signal_hook::flag::register(SIGINT, stop.clone())?;
    Ok(())
}

fn run(args: &Args, terminal: &mut Terminal<'_>) -> Result<stats::Stats> {
    let lines = Lines::open(args, terminal.input.take())?;
    let mut batch = Batch { args, lines, terminal };
    backend::run(&mut batch, args.backend, args.dtype, args.determinism, args.stats)
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
