//! Measures the overhead of a call besides its kernel, in nanoseconds and allocations, with kernels that do nothing.
//!
//! `cargo run --release -p ops-cpu --example overhead`. `--check` also counts a call's instructions, under valgrind, and fails if a
//! call executes more than its budget or allocates. Nanoseconds depend on the machine and its load, so no check relies on them.
use ops_core::combine::{Intercept, Wrapper};
use ops_core::ops::args::{attention, linear};
use ops_core::ops::{Attention, AttentionOps, Linear, LinearOps, NormMethods, NormOps, RmsNorm};
use ops_core::quant::BlockQ8_0;
use ops_core::{AnyTensor, Call, Either, Error, Execute, Fallback, Op, Operands, Reason, Result, f16};
use ops_cpu::{Cpu, Host};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The system allocator with a counter.
struct Counting;
static COUNT: AtomicUsize = AtomicUsize::new(0);
// SAFETY: all methods forward to the system allocator; the counter is separate from it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}
#[global_allocator]
static COUNTING: Counting = Counting;

/// A backend whose kernels do nothing.
#[derive(Clone, Debug)]
struct Nothing(Cpu);
impl Wrapper for Nothing {
    type Inner = Cpu;
    fn inner(&self) -> &Cpu {
        &self.0
    }
    fn around(&self, inner: Cpu) -> Self {
        Nothing(inner)
    }
}
impl<O: Op> Intercept<O> for Nothing
where
    Cpu: Execute<O>,
{
    #[inline]
    fn support(&self, _: &O, _: &dyn Operands) -> Result<(), Reason> {
        Ok(())
    }
    #[inline]
    fn execute(&self, call: Call<'_, '_, O, Host>) -> Result<()> {
        black_box(call.into_parts());
        Ok(())
    }
}

/// A measurement.
struct Row {
    call: &'static str,
    through: &'static str,
    nanoseconds: f64,
    allocations: usize,
}

/// What to measure.
enum Question<'r> {
    /// The time and the allocations of every call.
    Time(&'r mut Vec<Row>),
    /// Nothing: the call with this number is made [`COUNTED`] times, so that valgrind can count its instructions.
    Count(usize),
}

/// Number of calls that are counted.
const COUNTED: u32 = 1000;

/// Maximum number of instructions per call on x86-64: `rms_norm`, `linear` and `attention` through each.
const BUDGETS: [(&str, [u64; 3]); 3] =
    [("direct", [835, 1135, 1740]), ("fallback", [965, 1340, 2000]), ("either", [970, 1395, 2050])];

/// Valgrind counts the instructions executed in this function.
#[inline(never)]
fn counted(f: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    (0..COUNTED).try_for_each(|_| f())
}

/// The instructions of the call with this number, counted by valgrind in a separate process.
fn instructions(number: usize) -> Result<u64> {
    let program = std::env::current_exe().map_err(|error| failed(format!("this program's path: {error}")))?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    valgrind.arg("--toggle-collect=overhead::counted*").arg(program).args(["--count", &number.to_string()]);
    let output = valgrind.output().map_err(|error| failed(format!("valgrind: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected =
        said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<u64>().ok());
    match collected {
        Some(collected) if output.status.success() && collected > 0 => Ok(collected / u64::from(COUNTED)),
        _ => Err(failed(format!("valgrind counted nothing for call {number}:\n{said}"))),
    }
}

fn failed(why: String) -> Error {
    Error::Device { backend: "cpu", call: "measuring a call", status: why }
}

/// Takes the best of many short runs, because other processes share the processor.
fn measure(through: &'static str, call: &'static str, f: &mut dyn FnMut() -> Result<()>) -> Result<Row> {
    const CALLS: u32 = 2_000;
    let before = COUNT.load(Ordering::Relaxed);
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..CALLS {
            f()?;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    Ok(Row { call, through, nanoseconds: best, allocations: COUNT.load(Ordering::Relaxed) - before })
}

/// Answers the question for the three calls through `b`. `number` counts the calls.
fn ask<B>(b: &B, through: &'static str, question: &mut Question<'_>, number: &mut usize) -> Result<()>
where
    B: NormOps<f32> + LinearOps<f32> + AttentionOps<f32>,
{
    let mut ask = |call, f: &mut dyn FnMut() -> Result<()>| {
        *number += 1;
        match question {
            Question::Time(rows) => rows.push(measure(through, call, f)?),
            Question::Count(wanted) if *wanted == *number => counted(f)?,
            Question::Count(_) => {}
        }
        Ok::<(), Error>(())
    };
    let x = b.tensor(&[4, 32], &[1.0f32; 128])?;
    let (weight, bias) = (b.tensor(&[32], &[f16::ONE; 32])?, b.tensor(&[32], &[0f32; 32])?);
    let blocks = BlockQ8_0 { scale: f16::ONE, q: [1; 32] };
    let matrix: AnyTensor<B::Space> = b.tensor(&[32, 1], &[blocks; 32])?.into();
    let q = b.tensor(&[1, 1, 4, 32], &[1.0f32; 128])?;
    let (mut y, mut o) = (b.zeros::<f32>(&[4, 32])?, b.zeros::<f32>(&[1, 1, 4, 32])?);
    // Create the views once: borrowing a buffer is the space's cost, not the call's.
    let (x, weight, matrix, bias, q) =
        (x.as_ref(), weight.as_ref().any(), matrix.as_ref(), bias.as_ref().any(), q.as_ref());
    let (mut y, mut o) = (y.as_mut(), o.as_mut());
    ask("rms_norm, 3 operands", &mut || {
        b.rms_norm_into(black_box(x.shorten()), black_box(weight), y.reborrow(), RmsNorm::eps(1e-5))
    })?;
    ask("linear with bias, 4 operands", &mut || {
        let (x, weight, bias) = (black_box(x.shorten()), black_box(matrix.shorten()), Some(bias.shorten()));
        b.run(&Linear::OP, linear::Args { x, weight, bias, y: y.reborrow() })
    })?;
    ask("attention, 4 operands of rank 4", &mut || {
        let (q, k, v) = (q.shorten(), black_box(q.shorten()), q.shorten());
        let args =
            attention::Args { q, k, v, mask: None, alibi: None, sinks: None, o: o.reborrow(), lse: None };
        b.run(black_box(&Attention::causal()), args)
    })
}

/// Answers the question for every call.
fn ask_all(question: &mut Question<'_>) -> Result<()> {
    let nothing = || Nothing(Cpu::new());
    let mut number = 0;
    ask(&nothing(), "direct", question, &mut number)?;
    ask(&Fallback::new(nothing(), Cpu::new()), "fallback", question, &mut number)?;
    ask(&Either::<Nothing, Cpu>::Left(nothing()), "either", question, &mut number)
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, number] = &arguments[..]
        && let ("--count", Ok(number)) = (flag.as_str(), number.parse())
    {
        return ask_all(&mut Question::Count(number)).map(|()| ExitCode::SUCCESS);
    }
    let check = arguments.iter().any(|argument| argument == "--check");
    let mut rows = Vec::new();
    ask_all(&mut Question::Time(&mut rows))?;
    println!(
        "{:<10} {:<32} {:>8} {:>12} {:>13} {:>7}",
        "through", "call", "ns", "allocations", "instructions", "budget"
    );
    let mut over = false;
    let budgets = BUDGETS.iter().flat_map(|(_, budgets)| budgets);
    for ((number, row), budget) in (1..).zip(rows).zip(budgets) {
        let Row { call, through, nanoseconds, allocations } = row;
        let executed = if check { Some(instructions(number)?) } else { None };
        let shown = executed.map_or("-".to_owned(), |count| count.to_string());
        println!("{through:<10} {call:<32} {nanoseconds:>8.1} {allocations:>12} {shown:>13} {budget:>7}");
        over |= executed.is_some_and(|count| count > *budget) || allocations > 0;
    }
    if over && check {
        eprintln!("a call executes more instructions than its budget, or allocates");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
