//! What a call costs on the host until its kernel is enqueued: nanoseconds and allocations, with launches that do nothing.
//!
//! `tools/launch.sh` runs it on the stand-in.
//!
//! "choice" asks who would compute a call. "call" makes it: shape rule, choice, binding and launch, less what HIP's own
//! functions take. `--check` fails where a call takes more than twice its budget or allocates.
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ops_core::ops::*;
use ops_core::{Backend, Error, Execute, Op, Operands, Result, f16};
use ops_rocm::hip::{Compiler, HipError, Source};
use ops_rocm::{Providers, Rocm};

/// The system's allocator, counted.
struct Counting;
static COUNT: AtomicUsize = AtomicUsize::new(0);
// SAFETY: everything is the system allocator's; the counter is beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(ptr, layout) }
    }
}
#[global_allocator]
static COUNTING: Counting = Counting;

/// The best of many short runs, in nanoseconds, and allocations per call.
fn measure(mut f: impl FnMut() -> Result<()>) -> Result<(f64, usize)> {
    const CALLS: u32 = 500;
    f()?; // compiles the kernel
    let before = COUNT.load(Ordering::Relaxed);
    let mut best = f64::INFINITY;
    for _ in 0..100 {
        let start = Instant::now();
        for _ in 0..CALLS {
            f()?;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    Ok((best, (COUNT.load(Ordering::Relaxed) - before) / (100 * CALLS as usize)))
}

/// A call through the backend, in nanoseconds and allocations.
struct Row {
    call: &'static str,
    providers: usize,
    choice: (f64, usize),
    whole: (f64, usize),
}

/// What a call may take, in nanoseconds on a machine of 3 GHz; one half as fast passes too.
const BUDGET: f64 = 400.0;

/// Asks who would compute a call, and makes it.
fn row<O: Op>(rocm: &Rocm, op: &O, on: &dyn Operands, mut call: impl FnMut() -> Result<()>) -> Result<Row>
where
    Rocm: Execute<O> + Providers<O>,
{
    let choice = measure(|| {
        let supported = rocm.support(op, on);
        supported.map_err(|reason| Error::Unsupported { op: op.name(), backend: rocm.name(), reason })
    })?;
    let providers = <Rocm as Providers<O>>::LIST.len();
    Ok(Row { call: op.name_on(on), providers, choice, whole: measure(&mut call)? })
}

fn rows(rocm: &Rocm) -> Result<Vec<Row>> {
    let half = |dims: &[usize]| rocm.zeros::<f16>(dims);
    let (x, weight, q) = (half(&[4, 512])?, half(&[512])?, half(&[1, 8, 4, 64])?);
    let (mut y, mut o) = (half(&[4, 512])?, half(&[1, 8, 4, 64])?);
    let (mut z, mut p) = (half(&[4, 512])?, half(&[1, 8, 4, 64])?);
    let (norm, add, full) = (RmsNorm::eps(1e-5), Binary::of(BinaryFn::Add), Attention::full());
    let (x, q, weight) = (x.as_ref(), q.as_ref(), weight.as_ref().any());
    Ok(vec![
        row(
            rocm,
            &norm,
            &rms_norm::Args { x: x.shorten(), weight: weight.shorten(), y: z.as_mut() },
            || rocm.run(&norm, rms_norm::Args { x: x.shorten(), weight: weight.shorten(), y: y.as_mut() }),
        )?,
        row(rocm, &add, &binary::Args { a: x.shorten(), b: x.shorten(), y: z.as_mut() }, || {
            rocm.run(&add, binary::Args { a: x.shorten(), b: x.shorten(), y: y.as_mut() })
        })?,
        row(
            rocm,
            &full,
            &attention::Args {
                q: q.shorten(),
                k: q.shorten(),
                v: q.shorten(),
                mask: None,
                alibi: None,
                sinks: None,
                o: p.as_mut(),
                lse: None,
            },
            || {
                let (q, k, v) = (q.shorten(), q.shorten(), q.shorten());
                let o = o.as_mut();
                rocm.run(
                    &full,
                    attention::Args { q, k, v, mask: None, alibi: None, sinks: None, o, lse: None },
                )
            },
        )?,
    ])
}

/// What HIP's own functions take of a launch on the stand-in: the current device and the launch itself.
fn in_hip(rocm: &Rocm) -> Result<f64> {
    let hip = rocm.device().hip();
    let compiler = Compiler::load(hip).map_err(|error| failed(error.to_string()))?;
    let text = include_str!("../tests/kernels.hip");
    let source = Source { name: "kernels.hip", text, headers: &[] };
    let code = compiler
        .compile(source, &rocm.device().info().gfx, &[])
        .map_err(|error| failed(error.to_string()))?;
    let bytes = code.to_bytes();
    let hip_failed = |error: HipError| failed(error.to_string());
    // SAFETY: a whole code object, which outlives the module.
    let module = unsafe { hip.module_load_data(bytes.as_ptr().cast()) }.map_err(hip_failed)?;
    // SAFETY: the module is live.
    let function = unsafe { hip.module_get_function(module, c"scale") }.map_err(hip_failed)?;
    let (time, _) = measure(|| {
        hip.current_device().map_err(hip_failed)?;
        // SAFETY: kernel and stream are live and of one device; the kernel takes 32 bytes and scales no elements.
        unsafe { hip.module_launch_kernel(function, [1; 3], [64, 1, 1], 0, rocm.stream().raw(), &[0; 32]) }
            .map_err(hip_failed)
    })?;
    rocm.synchronize()?;
    // SAFETY: the kernel has run, and is used no more.
    unsafe { hip.module_unload(module) }.map_err(hip_failed)?;
    Ok(time)
}

fn failed(why: String) -> Error {
    Error::Device { backend: "rocm", call: "measuring a launch", status: why }
}

fn main() -> Result<ExitCode> {
    let rocm = Rocm::new()?;
    let hip = in_hip(&rocm)?;
    println!("{:<10} {:>9} {:>10} {:>8} {:>12}", "call", "providers", "choice ns", "call ns", "allocations");
    let mut slow = false;
    for Row { call, providers, choice, whole } in rows(&rocm)? {
        let ours = whole.0 - hip;
        println!("{call:<10} {providers:>9} {:>10.0} {ours:>8.0} {:>12}", choice.0, choice.1 + whole.1);
        slow |= ours > 2.0 * BUDGET || choice.1 + whole.1 > 0;
    }
    println!("HIP's own functions, {hip:.0} ns a launch on the stand-in, are taken off.");
    let check = std::env::args().any(|arg| arg == "--check");
    if slow && check {
        eprintln!("a call takes more than {} ns, twice its budget, or allocates", 2.0 * BUDGET);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
