//! The cost of a call on the host until its kernel is enqueued: nanoseconds and allocations, with launches
//! that do nothing.
//!
//! `tools/ci/launch.sh` runs it on the stand-in.
//!
//! "choice" asks which provider would compute a call. "call" makes it: shape rule, choice, binding and
//! launch, minus the time of HIP's own functions. `--check` also counts a call's instructions, under
//! valgrind, and fails if a call executes more than its budget or allocates. Nanoseconds depend on the
//! machine and its load, so no check relies on them.
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ops_core::ops::*;
use ops_core::{Backend, Error, Execute, Op, Operands, Result, f16};
use ops_rocm::hip::{Compiler, HipError, Source};
use ops_rocm::{Providers, Rocm};

/// The system allocator with a counter.
struct Counting;
static COUNT: AtomicUsize = AtomicUsize::new(0);
// SAFETY: all methods forward to the system allocator; the counter is separate from it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
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

/// What to measure.
enum Question<'a> {
    /// The time of every call.
    Time(&'a mut Vec<Row>),
    /// Nothing: the named call is made [`COUNTED`] times, so that valgrind can count its instructions.
    Count(&'a str),
}

/// The cost of a call through the backend, in nanoseconds and allocations.
struct Row {
    call: &'static str,
    providers: usize,
    choice: (f64, usize),
    whole: (f64, usize),
}

/// Number of calls that are counted.
const COUNTED: u32 = 1000;

/// Maximum number of instructions per call on x86-64, including HIP's own functions on the stand-in.
const BUDGETS: [(&str, u64); 3] = [("rms_norm", 7000), ("add", 6200), ("attention", 8600)];

/// Valgrind counts the instructions executed in this function.
#[inline(never)]
fn counted(f: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    (0..COUNTED).try_for_each(|_| f())
}

/// The instructions of a call, counted by valgrind in a separate process.
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

/// Measures the choice and the call.
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

/// Measures each call.
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

/// The time of HIP's own functions in a launch on the stand-in: setting the current device, and the launch
/// itself.
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
    // SAFETY: a complete code object, which outlives the module.
    let module = unsafe { hip.module_load_data(bytes.as_ptr().cast()) }.map_err(hip_failed)?;
    // SAFETY: the module is live.
    let function = unsafe { hip.module_get_function(module, c"scale") }.map_err(hip_failed)?;
    let (time, _) = measure(|| {
        hip.current_device().map_err(hip_failed)?;
        // SAFETY: kernel and stream are live and belong to one device; the kernel's arguments have 32 bytes,
        // and it scales no elements.
        unsafe { hip.module_launch_kernel(function, [1; 3], [64, 1, 1], 0, rocm.stream().raw(), &[0; 32]) }
            .map_err(hip_failed)
    })?;
    rocm.synchronize()?;
    // SAFETY: the kernel has run, and is not used again.
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
    println!("The time of HIP's own functions, {hip:.0} ns per launch on the stand-in, is subtracted.");
    if over && check {
        eprintln!("a call executes more instructions than its budget, or allocates");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
