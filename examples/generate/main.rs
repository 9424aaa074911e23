//! Generates text with a model, on any backend: `cargo run --release --example generate`.
mod args;
mod chat;
mod input;
mod output;
mod progress;
mod run;
mod sampler;
mod stats;
#[cfg(test)]
mod tests;

use args::{Args, On, Type};
use clap::Parser;
use rocm_ops::combine::Timed;
use rocm_ops::model::Transformer;
use rocm_ops::{Checked, Cpu, Reference, bf16, f16};
use signal_hook::consts::SIGINT;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The model's steps, on a state of their own.
type Steps<'s> = dyn FnMut() -> Result<()> + 's;
/// Readies a backend for these steps.
type Prepare<'p> = dyn Fn(&mut Steps<'_>) -> Result<()> + 'p;

/// What a run writes to and is stopped by.
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
    let nothing: &Prepare<'_> = &|_| Ok(());
    match args.backend {
        On::Cpu => {
            let cpu = Timed::new(Cpu::new()).on(args.stats);
            let prepare: &Prepare<'_> = &|_| {
                cpu.clear();
                Ok(())
            };
            with_type(args, "cpu", &cpu, prepare, terminal)?;
            stats::print(args, &cpu.times(), &[]);
        }
        On::Reference => with_type(args, "reference", &Reference::new(), nothing, terminal)?,
        On::Checked => {
            let checked = Checked::new(Cpu::new(), Reference::new());
            with_type(args, "checked", &checked, nothing, terminal)?;
            if args.stats {
                eprintln!("{} calls agree with the reference", checked.calls());
            }
        }
        #[cfg(feature = "rocm")]
        On::Rocm => {
            let rocm = Timed::new(rocm_ops::Rocm::new()?).on(args.stats);
            let prepare: &Prepare<'_> = &|steps| {
                compile_kernels(rocm.inside(), steps)?;
                rocm.clear();
                Ok(())
            };
            with_type(args, "rocm", &rocm, prepare, terminal)?;
            stats::print(args, &rocm.times(), &stats::providers(rocm.inside()));
        }
    }
    Ok(())
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
fn with_type<B>(
    args: &Args,
    name: &str,
    backend: &B,
    prepare: &Prepare<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<()>
where
    B: Transformer<f32> + Transformer<f16> + Transformer<bf16>,
{
    let input = input::Input::new(args)?;
    match args.dtype {
        Type::F32 => run::generate::<f32, B>(&input, name, backend, prepare, terminal),
        Type::F16 => run::generate::<f16, B>(&input, name, backend, prepare, terminal),
        Type::Bf16 => run::generate::<bf16, B>(&input, name, backend, prepare, terminal),
    }
}
