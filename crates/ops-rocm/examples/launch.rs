//! What a call costs on the host until its kernel is enqueued: nanoseconds and allocations, with launches that do nothing.
//!
//! `tools/ci/launch.sh` runs it on the stand-in.
//!
//! "choice" asks who would compute a call. "call" makes it: shape rule, choice, binding and launch, less what HIP's own
//! functions take. `--check` counts a call's instructions too, under valgrind, and fails where a call executes more than its budget or
//! allocates. Nanoseconds depend on the machine and on what else it does, so no check relies on them.
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, ExitCode};
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

/// What is asked of a call.
enum Question<'a> {
    /// How long it takes.
    Time(&'a mut Vec<Row>),
    /// Nothing: the named call is made [`COUNTED`] times, for valgrind to count its instructions.
    Count(&'a str),
}

/// A call through the backend, in nanoseconds and allocations.
struct Row {
    call: &'static str,
    providers: usize,
    choice: (f64, usize),
    whole: (f64, usize),
}

/// So many calls are counted.
const COUNTED: u32 = 1000;

/// The instructions that a call may execute on x86-64, HIP's own functions on the stand-in included.
const BUDGETS: [(&str, u64); 3] = [("rms_norm", 7000), ("add", 6200), ("attention", 8600)];

/// Valgrind counts what is executed in this function.
#[inline(never)]
fn counted(f: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    (0..COUNTED).try_for_each(|_| f())
}

/// The instructions of a call, counted by valgrind in a process of its own.
fn instructions(call: &str) -> Result<u64> {
    let program = std::env::current_exe().map_err(|error| failed(format!("this program's path: {error}")))?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    valgrind.arg("--toggle-collect=launch::counted*").arg(program).args(["--count", call]);
    let output = valgrind.output().map_err(|error| failed(format!("valgrind: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected =
        said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<u64>().ok());
    match collected {
        Some(collected) if output.status.success() && collected > 0 => Ok(collected / u64::from(COUNTED)),
        _ => Err(failed(format!("valgrind counted nothing for {call}:\n{said}"))),
    }
}

/// Asks who would compute a call, and makes it.
fn row<O: Op>(
    rocm: &Rocm,
    question: &mut Question<'_>,
    op: &O,
    on: &dyn Operands,
    mut call: impl FnMut() -> Result<()>,
) -> Result<()>
where
    Rocm: Execute<O> + Providers<O>,
{
    let name = op.name_on(on);
    match question {
        Question::Count(wanted) if *wanted == name => {
            call()?; // compiles the kernel
            counted(&mut call)
        }
        Question::Count(_) => Ok(()),
        Question::Time(rows) => {
            let choice = measure(|| {
                let supported = rocm.support(op, on);
                supported.map_err(|reason| Error::Unsupported { op: op.name(), backend: rocm.name(), reason })
            })?;
            let providers = <Rocm as Providers<O>>::LIST.len();
            rows.push(Row { call: name, providers, choice, whole: measure(&mut call)? });
            Ok(())
        }
    }
}

/// Puts the question for each call.
fn ask(rocm: &Rocm, question: &mut Question<'_>) -> Result<()> {
    let half = |dims: &[usize]| rocm.zeros::<f16>(dims);
    let (x, weight, q) = (half(&[4, 512])?, half(&[512])?, half(&[1, 8, 4, 64])?);
    let (mut y, mut o_out) = (half(&[4, 512])?, half(&[1, 8, 4, 64])?);
    let (mut z, mut p) = (half(&[4, 512])?, half(&[1, 8, 4, 64])?);
    let (norm, add, full) = (RmsNorm::eps(1e-5), Binary::of(BinaryFn::Add), Attention::full());
    let (x, q, weight) = (x.as_ref(), q.as_ref(), weight.as_ref().any());
    let on = args::rms_norm::Args { x: x.shorten(), weight: weight.shorten(), y: z.as_mut() };
    row(rocm, question, &norm, &on, || {
        rocm.run(&norm, args::rms_norm::Args { x: x.shorten(), weight: weight.shorten(), y: y.as_mut() })
    })?;
    let on = args::binary::Args { a: x.shorten(), b: x.shorten(), y: z.as_mut() };
    row(rocm, question, &add, &on, || {
        rocm.run(&add, args::binary::Args { a: x.shorten(), b: x.shorten(), y: y.as_mut() })
    })?;
    let (k, v, o) = (q.shorten(), q.shorten(), p.as_mut());
    let on =
        args::attention::Args { q: q.shorten(), k, v, mask: None, alibi: None, sinks: None, o, lse: None };
    row(rocm, question, &full, &on, || {
        let (q, k, v) = (q.shorten(), q.shorten(), q.shorten());
        let o = o_out.as_mut();
        rocm.run(&full, args::attention::Args { q, k, v, mask: None, alibi: None, sinks: None, o, lse: None })
    })
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rocm = Rocm::new()?;
    if let [flag, call] = &arguments[..]
        && flag == "--count"
    {
        return ask(&rocm, &mut Question::Count(call)).map(|()| ExitCode::SUCCESS);
    }
    let check = arguments.iter().any(|argument| argument == "--check");
    let hip = in_hip(&rocm)?;
    let mut rows = Vec::new();
    ask(&rocm, &mut Question::Time(&mut rows))?;
    println!(
        "{:<10} {:>9} {:>10} {:>8} {:>12} {:>13} {:>7}",
        "call", "providers", "choice ns", "call ns", "allocations", "instructions", "budget"
    );
    let mut over = false;
    for Row { call, providers, choice, whole } in rows {
        let (ns, allocations) = (whole.0 - hip, choice.1 + whole.1);
        let budget = BUDGETS.iter().find(|(name, _)| *name == call).map_or(0, |(_, budget)| *budget);
        let executed = if check { Some(instructions(call)?) } else { None };
        let shown = executed.map_or("-".to_owned(), |count| count.to_string());
        println!(
            "{call:<10} {providers:>9} {:>10.0} {ns:>8.0} {allocations:>12} {shown:>13} {budget:>7}",
            choice.0
        );
        over |= executed.is_some_and(|count| count > budget) || allocations > 0;
    }
    println!("HIP's own functions, {hip:.0} ns a launch on the stand-in, are taken off the nanoseconds.");
    if over && check {
        eprintln!("a call executes more instructions than its budget, or allocates");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
