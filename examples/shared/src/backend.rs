//! Runs a job with the backend and the element type chosen on the command line.
use crate::command::stderr;
use crate::{Result, stats};
use clap::ValueEnum;
use rocm_ops::combine::{OpTime, Timed};
use rocm_ops::model::Transformer;
use rocm_ops::{Checked, Cpu, Determinism, EitherHost, Float, Reference, bf16, f16};

/// What `--backend` names.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(missing_docs)] // --help would print them
pub enum On {
    Cpu,
    Reference,
    Checked,
    #[cfg(feature = "rocm")]
    Rocm,
}

impl On {
    /// The memory of the largest device; `None` if it is the host's or not known. How much of it is free is checked when the weights
    /// are loaded.
    pub(crate) fn device_memory(self) -> Option<u64> {
        #[cfg(feature = "rocm")]
        if matches!(self, On::Rocm) {
            let devices = rocm_ops::Rocm::devices().ok()?;
            let known = devices.iter().map(|device| (!device.integrated).then_some(device.memory as u64));
            return known.collect::<Option<Vec<_>>>()?.into_iter().max();
        }
        None
    }
    /// Whether the backend copies a model's weights to a layout of its own in host memory.
    pub(crate) fn packs(self) -> bool {
        matches!(self, On::Cpu | On::Checked)
    }
}

/// What `--dtype` names.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(missing_docs)] // --help would print them
pub enum Type {
    F32,
    F16,
    Bf16,
}

/// What `--activations` names.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
#[allow(missing_docs)] // --help would print them
pub enum Activations {
    #[default]
    Rounded,
    Exact,
}

/// Where and how a job is computed.
#[derive(Clone, Copy, Debug)]
pub struct Computing {
    /// The backend.
    pub on: On,
    /// The element type.
    pub dtype: Type,
    /// The lowest level of determinism. The reference always computes each row independently.
    pub determinism: Determinism,
    /// What the CPU multiplies quantized weights by.
    pub activations: Activations,
    /// Whether statistics are written to standard error.
    pub stats: bool,
}

/// The model's steps, on a separate state.
pub type Steps<'s> = dyn FnMut() -> Result<()> + 's;
/// Prepares a backend for these steps.
pub type Prepare<'p> = dyn Fn(&mut Steps<'_>) -> Result<()> + 'p;

/// What a program computes, on any backend and with any element type.
pub trait Job {
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
pub fn run<J: Job>(job: &mut J, computing: Computing) -> Result<J::Output> {
    let Computing { on, dtype, determinism, activations, stats } = computing;
    match on {
        // One type for all three, so that everything below is compiled only once.
        On::Cpu | On::Checked | On::Reference => {
            let activations = match activations {
                Activations::Rounded => rocm_ops::Activations::Rounded,
                Activations::Exact => rocm_ops::Activations::Exact,
            };
            let builder = Cpu::builder().determinism(determinism).activations(activations);
            let cpu = || builder.build().map(EitherHost::Cpu);
            let (name, host) = match on {
                On::Reference => ("reference", EitherHost::Reference),
                On::Checked => ("checked", cpu()?),
                _ => ("cpu", cpu()?),
            };
            let checks = matches!(on, On::Checked);
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
        #[cfg(feature = "rocm")]
        On::Rocm => {
            if matches!(activations, Activations::Exact) {
                let why = "its kernels for few rows round activations to 8 bits, too";
                return Err(format!("--activations exact: got --backend rocm, wanted cpu: {why}").into());
            }
            let rocm = Timed::new(rocm_ops::Rocm::builder().determinism(determinism).build()?).on(stats);
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
#[cfg(feature = "rocm")]
fn compile_kernels(rocm: &rocm_ops::Rocm, steps: &mut Steps<'_>) -> Result<()> {
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
    dtype: Type,
    name: &str,
    backend: &B,
    prepare: &Prepare<'_>,
) -> Result<J::Output>
where
    J: Job,
    B: Transformer<f32> + Transformer<f16> + Transformer<bf16>,
{
    match dtype {
        Type::F32 => job.run::<f32, B>(name, backend, prepare),
        Type::F16 => job.run::<f16, B>(name, backend, prepare),
        Type::Bf16 => job.run::<bf16, B>(name, backend, prepare),
    }
}
