//! Runs a job with the backend and the element type chosen on the command line.
use super::{Result, stats};
use crate::args::{Activations, Choice, Rounding};
use ops_command::stderr;
use ops_core::combine::{OpTime, Timed};
use ops_core::model::Transformer;
use ops_core::{Checked, Determinism, Float, bf16, f16};
use ops_cpu::{Cpu, EitherHost, HostGroup, Reference};
use ops_models::{Rank, on_ranks};
use ops_rocm::{Rocm, RocmGroup};

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
        rank: &Rank<'_, B>,
        prepare: &Prepare<'_>,
    ) -> Result<Self::Output>;
}

/// What the other ranks of a job compute, on threads of their own and without output.
pub(crate) trait Follower: Sync {
    /// Makes the calls that the job makes on rank 0.
    fn run<T: Float, B: Transformer<T>>(
        &self,
        name: &str,
        rank: &Rank<'_, B>,
        prepare: &Prepare<'_>,
    ) -> Result<()>;
}

struct Following<'f, F>(&'f F);

impl<F: Follower> Job for Following<'_, F> {
    type Output = ();
    fn run<T: Float, B: Transformer<T>>(
        &mut self,
        name: &str,
        rank: &Rank<'_, B>,
        prepare: &Prepare<'_>,
    ) -> Result<()> {
        self.0.run::<T, B>(name, rank, prepare)
    }
}

/// Runs the job on one device; then writes statistics to standard error, if requested.
pub(crate) fn run<J: Job>(job: &mut J, computing: Computing) -> Result<J::Output> {
    match computing.on {
        Choice::Rocm => {
            let rocm = Rocm::builder().determinism(computing.determinism).build()?;
            on_rocm(job, computing, &Rank::only(&rocm))
        }
        _ => on_host(job, computing, &Rank::only(&host(computing, None)?)),
    }
}

/// Runs the job on these devices, each of which computes a part of the model; as [`run`] if none is named. With determinism `batch`, one
/// named device cuts its sums as several do. On the CPU, each number is a rank with its share of the threads.
pub(crate) fn run_on<J: Job>(
    job: &mut J,
    follower: &impl Follower,
    computing: Computing,
    devices: &[u32],
) -> Result<J::Output> {
    if devices.is_empty() {
        return run(job, computing);
    }
    let least = computing.determinism;
    if computing.on != Choice::Rocm {
        let threads = std::thread::available_parallelism().map_or(1, usize::from) / devices.len();
        let hosts = devices.iter().map(|_| host(computing, Some(threads.max(1))));
        let ranks = HostGroup::of(hosts.collect::<Result<_>>()?)?;
        let follow = |rank: &Rank<'_, _>| on_host(&mut Following(follower), computing, rank).map_err(to_send);
        return on_ranks(ranks, least, |rank| on_host(job, computing, rank), follow);
    }
    let queue = |device: &u32| Ok(Rocm::builder().ordinal(*device).determinism(least).build()?);
    let queues: Vec<Rocm> = devices.iter().map(queue).collect::<Result<_>>()?;
    let follow = |rank: &Rank<'_, _>| on_rocm(&mut Following(follower), computing, rank).map_err(to_send);
    let lead = |rank: &Rank<'_, Rocm>| on_rocm(job, computing, rank);
    match queues.len() {
        // Nothing is sent, so RCCL is not needed.
        1 => on_ranks(HostGroup::of(queues)?, least, lead, follow),
        _ => on_ranks(RocmGroup::of(queues)?, least, lead, follow),
    }
}

/// The same error for another thread.
pub(crate) fn to_send(error: Box<dyn std::error::Error>) -> ops_models::Error {
    let error = match error.downcast::<ops_models::Error>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    let other =
        |error: Box<dyn std::error::Error>| ops_core::Error::other(std::io::Error::other(error.to_string()));
    error.downcast::<ops_core::Error>().map_or_else(other, |error| *error).into()
}

/// One type for all three backends in host memory, so that everything below is compiled only once.
fn host(
    Computing { on, determinism, rounding, .. }: Computing,
    threads: Option<usize>,
) -> Result<EitherHost> {
    if on == Choice::Reference {
        return Ok(EitherHost::Reference);
    }
    let activations = match rounding {
        Rounding::Rounded => ops_cpu::Activations::Rounded,
        Rounding::Exact => ops_cpu::Activations::Exact,
    };
    let builder = Cpu::builder().determinism(determinism).activations(activations);
    let builder = threads.map_or(builder, |threads| builder.threads(threads));
    Ok(EitherHost::Cpu(builder.build()?))
}

fn on_host<J: Job>(job: &mut J, computing: Computing, rank: &Rank<'_, EitherHost>) -> Result<J::Output> {
    let (checks, stats) = (computing.on == Choice::Checked, computing.stats && rank.leads());
    let timed = Timed::new(rank.backend().clone()).on(stats && !checks);
    let cpu = Checked::new(timed, Reference::new()).on(checks);
    let prepare: &Prepare<'_> = &|_| {
        cpu.primary().clear();
        Ok(())
    };
    let output = with_type(job, computing.dtype, computing.on.name(), &rank.with_backend(&cpu), prepare)?;
    if stats && checks {
        writeln!(stderr(), "{} calls agree with the reference", cpu.calls());
    }
    print(stats && !checks, &cpu.primary().times(), Vec::new);
    Ok(output)
}

fn on_rocm<J: Job>(job: &mut J, computing: Computing, rank: &Rank<'_, Rocm>) -> Result<J::Output> {
    if computing.rounding == Rounding::Exact {
        let why = "its kernels for few rows round activations to 8 bits, too";
        return Err(format!("--activations exact: got --backend rocm, wanted cpu: {why}").into());
    }
    let stats = computing.stats && rank.leads();
    let rocm = Timed::new(rank.backend().clone()).on(stats);
    let prepare: &Prepare<'_> = &|steps| {
        compile_kernels(rocm.inside(), steps, rank.leads())?;
        rank.wait_for_all()?;
        rocm.clear();
        Ok(())
    };
    let output = with_type(job, computing.dtype, computing.on.name(), &rank.with_backend(&rocm), prepare)?;
    print(stats, &rocm.times(), || stats::providers(rocm.inside()));
    Ok(output)
}

fn print(stats: bool, times: &[OpTime], providers: impl FnOnce() -> Vec<(String, String)>) {
    if stats {
        stats::print(times, &providers());
    }
}

/// Compiles the kernels of these steps, and reports it if that took time.
fn compile_kernels(rocm: &Rocm, steps: &mut Steps<'_>, reports: bool) -> Result<()> {
    let prepared = rocm.prepare(steps)?;
    if reports && prepared.compiled() > 0 {
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
    rank: &Rank<'_, B>,
    prepare: &Prepare<'_>,
) -> Result<J::Output>
where
    J: Job,
    B: Transformer<f32> + Transformer<f16> + Transformer<bf16>,
{
    match dtype {
        Activations::F32 => job.run::<f32, B>(name, rank, prepare),
        Activations::F16 => job.run::<f16, B>(name, rank, prepare),
        Activations::Bf16 => job.run::<bf16, B>(name, rank, prepare),
    }
}
