//! Turns sentences into vectors, on any backend: `cargo run --release --example embed -- --model FOLDER --prompt TEXT`.
mod args;
mod input;
mod output;
mod run;
#[cfg(test)]
mod tests;

use args::Args;
use clap::Parser;
use examples_shared::backend::{self, Job, Prepare};
use examples_shared::{Result, command};
use input::Input;
use rocm_ops::Float;
use rocm_ops::model::Transformer;
use std::io::{Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(feature = "rocm")]
    rocm_ops::rocm::compile_helper();
    let args = Args::parse();
    let run = || run(&args, &mut std::io::stdin(), &mut std::io::stdout());
    command::end(examples_shared::start(None).and_then(|()| run()).map(|()| 0))
}

fn run(args: &Args, standard: &mut dyn Read, out: &mut dyn Write) -> Result<()> {
    let input = Input::new(args, standard)?;
    let embeddings = backend::run(&mut Embed(&input), args.computing())?;
    output::print(&input, &embeddings, out)?;
    Ok(out.flush()?)
}

struct Embed<'i>(&'i Input<'i>);

impl Job for Embed<'_> {
    type Output = Vec<Vec<f32>>;

    fn run<T: Float, B: Transformer<T>>(
        &mut self,
        name: &str,
        backend: &B,
        prepare: &Prepare<'_>,
    ) -> Result<Self::Output> {
        run::embed::<T, B>(self.0, name, backend, prepare)
    }
}
