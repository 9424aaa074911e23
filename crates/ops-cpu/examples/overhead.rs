//! Measures the overhead of a call besides its kernel, in nanoseconds and allocations, with kernels that do nothing.
//!
//! `cargo run --release -p ops-cpu --example overhead`. `--check` fails if a call allocates or takes more than twice its
//! budget; the factor of two allows for machines half as fast as the one that the budgets were set on.
use ops_core::combine::Wrapper;
use ops_core::ops::args::{attention, linear};
use ops_core::ops::{Attention, AttentionOps, Linear, LinearOps, NormOps, RmsNorm};
use ops_core::quant::BlockQ8_0;
use ops_core::{AnyTensor, Call, Either, Execute, Fallback, Op, Operands, Reason, Result, f16};
use ops_cpu::{Cpu, Host};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::process::ExitCode;
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
impl<O: Op> Execute<O> for Nothing {
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

/// A measurement and its budget.
struct Row {
    call: &'static str,
    through: &'static str,
    nanoseconds: f64,
    allocations: usize,
    budget: f64,
}

impl Row {
    /// Takes the best of many short runs, because other processes share the processor.
    fn measure(
        through: &'static str,
        call: &'static str,
        budget: f64,
        mut f: impl FnMut() -> Result<()>,
    ) -> Result<Row> {
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
        let allocations = COUNT.load(Ordering::Relaxed) - before;
        Ok(Row { call, through, nanoseconds: best, allocations, budget })
    }
    fn passes(&self) -> bool {
        self.nanoseconds <= 2.0 * self.budget && self.allocations == 0
    }
}

/// The three calls, with their `budgets` in the same order.
fn calls<B>(b: &B, through: &'static str, budgets: [f64; 3]) -> Result<[Row; 3]>
where
    B: NormOps<f32> + LinearOps<f32> + AttentionOps<f32>,
{
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
    Ok([
        Row::measure(through, "rms_norm, 3 operands", budgets[0], || {
            b.rms_norm_into(black_box(x.shorten()), black_box(weight), y.reborrow(), RmsNorm::eps(1e-5))
        })?,
        Row::measure(through, "linear with bias, 4 operands", budgets[1], || {
            let (x, weight, bias) =
                (black_box(x.shorten()), black_box(matrix.shorten()), Some(bias.shorten()));
            b.run(&Linear::OP, linear::Args { x, weight, bias, y: y.reborrow() })
        })?,
        Row::measure(through, "attention, 4 operands of rank 4", budgets[2], || {
            let (q, k, v) = (q.shorten(), black_box(q.shorten()), q.shorten());
            let args =
                attention::Args { q, k, v, mask: None, alibi: None, sinks: None, o: o.reborrow(), lse: None };
            b.run(black_box(&Attention::causal()), args)
        })?,
    ])
}

fn main() -> Result<ExitCode> {
    let nothing = || Nothing(Cpu::new());
    let either = Either::<Nothing, Cpu>::Left(nothing());
    let rows: Vec<Row> = [
        calls(&nothing(), "direct", [60.0, 60.0, 80.0])?,
        calls(&Fallback::new(nothing(), Cpu::new()), "fallback", [100.0, 100.0, 130.0])?,
        calls(&either, "either", [100.0, 100.0, 130.0])?,
    ]
    .into_iter()
    .flatten()
    .collect();
    println!("{:<10} {:<32} {:>8} {:>10} {:>12}", "through", "call", "ns", "budget ns", "allocations");
    for row in &rows {
        let Row { call, through, nanoseconds, allocations, budget } = row;
        println!("{through:<10} {call:<32} {nanoseconds:>8.1} {budget:>10.0} {allocations:>12}");
    }
    let check = std::env::args().any(|a| a == "--check");
    let slow: Vec<&Row> = rows.iter().filter(|row| !row.passes()).collect();
    for row in &slow {
        eprintln!("{} through {}: more than twice its budget, or it allocates", row.call, row.through);
    }
    Ok(if check && !slow.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
