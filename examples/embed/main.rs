//! Turns sentences into vectors, on any backend: `cargo run --release --example embed -- --model FOLDER --prompt TEXT`.
mod args;
mod input;
mod output;
#[path = "../generate/progress.rs"]
mod progress;
mod run;
#[path = "../generate/stats.rs"]
mod stats;
#[cfg(test)]
mod tests;

use args::{Args, On, Type};
use clap::Parser;
use input::Input;
use rocm_ops::combine::Timed;
use rocm_ops::model::Transformer;
use rocm_ops::{Checked, Cpu, Reference, bf16, f16};
use std::io::{Read, Write};
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The model's steps.
type Steps<'s> = dyn FnMut() -> Result<()> + 's;
/// Readies a backend for these steps.
type Prepare<'p> = dyn Fn(&mut Steps<'_>) -> Result<()> + 'p;

fn main() -> ExitCode {
    #[cfg(feature = "rocm")]
    rocm_ops::rocm::compile_helper();
    match run(&Args::parse(), &mut std::io::stdin(), &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args, standard: &mut dyn Read, out: &mut dyn Write) -> Result<()> {
    let input = Input::new(args, standard)?;
    let embeddings = on_backend(&input)?;
    output::print(&input, &embeddings, out)?;
    Ok(out.flush()?)
}

fn on_backend(input: &Input<'_>) -> Result<Vec<Vec<f32>>> {
    let (args, nothing): (_, &Prepare<'_>) = (input.args, &|_| Ok(()));
    match args.backend {
        On::Cpu => {
            let cpu = Timed::new(Cpu::new()).on(args.stats);
            let prepare: &Prepare<'_> = &|_| {
                cpu.clear();
                Ok(())
            };
            let embeddings = with_type(input, "cpu", &cpu, prepare)?;
            stats::print(args, &cpu.times(), &[]);
            Ok(embeddings)
        }
        On::Reference => with_type(input, "reference", &Reference::new(), nothing),
        On::Checked => {
            let checked = Checked::new(Cpu::new(), Reference::new());
            let embeddings = with_type(input, "checked", &checked, nothing)?;
            if args.stats {
                eprintln!("{} calls agree with the reference", checked.calls());
            }
            Ok(embeddings)
        }
        #[cfg(feature = "rocm")]
        On::Rocm => {
            let rocm = Timed::new(rocm_ops::Rocm::new()?).on(args.stats);
            let prepare: &Prepare<'_> = &|steps| {
                compile_kernels(rocm.inside(), steps)?;
                rocm.clear();
                Ok(())
            };
            let embeddings = with_type(input, "rocm", &rocm, prepare)?;
            stats::print(args, &rocm.times(), &stats::providers(rocm.inside()));
            Ok(embeddings)
        }
    }
}

/// Compiles the kernels of these steps, and says so if that took time.
#[cfg(feature = "rocm")]
fn compile_kernels(rocm: &rocm_ops::Rocm, steps: &mut Steps<'_>) -> Result<()> {
    let prepared = rocm.prepare(steps)?;
    if prepared.compiled() > 0 {
        eprintln!("{prepared}; later runs find them in the cache");
    }
    Ok(())
}

/// Picks the element type. Everything below is generic over it.
fn with_type<B>(input: &Input<'_>, name: &str, backend: &B, prepare: &Prepare<'_>) -> Result<Vec<Vec<f32>>>
where
    B: Transformer<f32> + Transformer<f16> + Transformer<bf16>,
{
    match input.args.dtype {
        Type::F32 => run::embed::<f32, B>(input, name, backend, prepare),
        Type::F16 => run::embed::<f16, B>(input, name, backend, prepare),
        Type::Bf16 => run::embed::<bf16, B>(input, name, backend, prepare),
    }
}
