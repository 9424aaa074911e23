//! Generates text with a model, on any backend: `cargo run --release --example generate`.
mod args;
mod input;
#[cfg(test)]
mod odd_files;
mod output;
mod run;
mod sampler;
#[cfg(test)]
mod tests;

use args::Args;
use clap::Parser;
use examples_shared::backend::{self, Job, Prepare};
use examples_shared::{Result, command};
use rocm_ops::Float;
use rocm_ops::model::Transformer;
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
    let mut terminal = Terminal { out: &mut std::io::stdout(), stop: stop.clone() };
    let done = examples_shared::start(Some(&stop)).and_then(|()| run(&args, &mut terminal));
    command::end(done.map(|()| if stop.load(Ordering::Relaxed) { 130 } else { 0 }))
}

fn run(args: &Args, terminal: &mut Terminal<'_>) -> Result<()> {
    backend::run(&mut Generate { args, terminal }, args.computing())
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
