//! Runs a job with the backend and the element type chosen on the command line.
use super::{Result, stats};
use crate::args::{Activations, Choice, Rounding};
use ops_command::stderr;
use ops_core::combine::{OpTime, Timed};
use ops_core::model::Transformer;
use ops_core::{Checked, Determinism, Float, bf16, f16};
use ops_cpu::{Cpu, EitherHost, Reference};
use ops_rocm::Rocm;

/// Where and how a job is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Computing {
    /// The backend.
    pub(crate) on: Choice,
    /// The element type.
    pub(crate) dtype: Activations,
    /// The lowest level of determinism. The reference always computes each row independently.
    pub(crate) determinism: Determinism,
    /// What the CPU multiplies quantized weights by.
    pub(crate) rounding: Rounding,
    /// Whether statistics are written to standard error.
    pub(crate) stats: bool,
}

/// The model's steps, on a separate state.
pub(crate) type Steps<'s> = dyn FnMut() -> Result<()> + 's;
/// Prepares a backend for these steps.
pub(crate) type Prepare<'p> = dyn Fn(&mut Steps<'_>) -> Result<()> + 'p;

/// What a program computes, on any backend and with any element type.
pub(crate) trait Job {
    /// What comes of it.
    type Output;
    /// Computes on `backend`, called `name`; `prepare` readies it before what is timed.
    fn run<T: Float, B: Transformer<T>>(
        &mut self,
        name: &str,
        backend: &B,
        prepare: &Prepare<'_>,
    ) -> Result<Self::Output>;
}

/// Runs the job; then writes statistics to standard error, if requested.
pub(crate) fn run<J: Job>(job: &mut J, computing: Computing) -> Result<J::Output> {
    let Computing { on, dtype, determinism, rounding, stats } = computing;
    match on {
        // One type for all three, so that everything below is compiled only once.
        Choice::Cpu | Choice::Checked | Choice::Reference => {
            let activations = match rounding {
                Rounding::Rounded => ops_cpu::Activations::Rounded,
                Rounding::Exact => ops_cpu::Activations::Exact,
            };
            let builder = Cpu::builder().determinism(determinism).activations(activations);
            let cpu = || builder.build().map(EitherHost::Cpu);
            let (name, host) = match on {
                Choice::Reference => ("reference", EitherHost::Reference),
                Choice::Checked => ("checked", cpu()?),
                _ => ("cpu", cpu()?),
            };
            let checks = on == Choice::Checked;
            let cpu = Checked::new(Timed::new(host).on(stats && !checks), Reference::new()).on(checks);
            let prepare: &Prepare<'_> = &|_| {
                cpu.primary().clear();
                Ok(())
            };
            let output = with_type(job, dtype, name, &cpu, prepare)?;
            if stats && checks {
                writeln!(stderr(), "{} calls agree with the reference", cpu.calls());
            }
            print(stats && !checks, &cpu.primary().times(), Vec::new);
            Ok(output)
        }
        Choice::Rocm => {
            if rounding == Rounding::Exact {
                let why = "its kernels for few rows round activations to 8 bits, too";
                return Err(format!("--activations exact: got --backend rocm, wanted cpu: {why}").into());
            }
            let rocm = Timed::new(Rocm::builder().determinism(determinism).build()?).on(stats);
            let prepare: &Prepare<'_> = &|steps| {
                compile_kernels(rocm.inside(), steps)?;
                rocm.clear();
                Ok(())
            };
            let output = with_type(job, dtype, "rocm", &rocm, prepare)?;
            print(stats, &rocm.times(), || stats::providers(rocm.inside()));
            Ok(output)
        }
    }
}

fn print(stats: bool, times: &[OpTime], providers: impl FnOnce() -> Vec<(String, String)>) {
    if stats {
        stats::print(times, &providers());
    }
}

/// Compiles the kernels of these steps, and reports it if that took time.
fn compile_kernels(rocm: &Rocm, steps: &mut Steps<'_>) -> Result<()> {
    let prepared = rocm.prepare(steps)?;
    if prepared.compiled() > 0 {
        match prepared.cache() {
            Ok(_) => writeln!(stderr(), "{prepared}; later runs find them in the cache"),
            Err(why) => writeln!(stderr(), "{prepared}; later runs compile them again: {why}"),
        }
    }
    Ok(())
}

/// Picks the element type. Everything below is generic over it.
fn with_type<J, B>(
    job: &mut J,
    dtype: Activations,
    name: &str,
    backend: &B,
    prepare: &Prepare<'_>,
) -> Result<J::Output>
where
    J: Job,
    B: Transformer<f32> + Transformer<f16> + Transformer<bf16>,
{
    match dtype {
        Activations::F32 => job.run::<f32, B>(name, backend, prepare),
        Activations::F16 => job.run::<f16, B>(name, backend, prepare),
        Activations::Bf16 => job.run::<bf16, B>(name, backend, prepare),
    }
}
