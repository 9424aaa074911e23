//! Generates text with a model, on any backend: `cargo run --release --example generate`.
mod args;
mod input;
mod output;
mod run;
mod sampler;
#[cfg(test)]
mod tests;

use args::Args;
use clap::Parser;
use examples_shared::Result;
use examples_shared::backend::{self, Job, Prepare};
use rocm_ops::model::Transformer;
use rocm_ops::{Determinism, Float};

use signal_hook::consts::SIGINT;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The output and stop signal of a run.
pub(crate) struct Terminal<'o> {
    pub(crate) out: &'o mut dyn Write,
    pub(crate) stop: Arc<AtomicBool>,
}

fn main() -> ExitCode {
    #[cfg(feature = "rocm")]
    rocm_ops::rocm::compile_helper();
    let args = Args::parse();
    let stop = Arc::new(AtomicBool::new(false));
    let done = on_interrupt(&stop)
        .and_then(|()| run(&args, &mut Terminal { out: &mut std::io::stdout(), stop: stop.clone() }));
    match done {
        Ok(()) if stop.load(Ordering::Relaxed) => ExitCode::from(130),
        Ok(()) => ExitCode::SUCCESS,
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

fn run(args: &Args, terminal: &mut Terminal<'_>) -> Result<()> {
    backend::run(&mut Generate { args, terminal }, args.backend, args.dtype, Determinism::Run, args.stats)
}

struct Generate<'g, 'o> {
    args: &'g Args,
    terminal: &'g mut Terminal<'o>,
}

impl Job for Generate<'_, '_> {
    type Output = ();

    fn run<T: Float, B: Transformer<T>>(
        &mut self,
        name: &str,
        backend: &B,
        prepare: &Prepare<'_>,
    ) -> Result<()> {
        let input = input::Input::new(self.args)?;
        run::generate::<T, B>(&input, name, backend, prepare, self.terminal)
    }
}
