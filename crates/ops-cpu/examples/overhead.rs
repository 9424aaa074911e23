//! What a call through the traits costs: one loop called directly and through `Backend::run`.
//!
//! `cargo run --release -p ops-cpu --example overhead`; `--check` fails beyond 60 ns at row length 8.
use ops_core::combine::Wrapper;
use ops_core::ops::{AddRmsNorm, GroupNorm, LayerNorm};
use ops_core::ops::{NormOps, RmsNorm};
use ops_core::{Backend, Call, DType, Execute, Layout, Operands, Reason, Result, View, unsupported};
use ops_cpu::{Cpu, Host};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

/// The loop: RMS norm of rows that stand in one piece each.
#[inline(never)]
fn rms_norm(x: &[f32], lx: &Layout, weight: &[f32], eps: f32, y: &mut [f32], ly: &Layout) {
    let n = lx.last();
    for (from, to) in lx.rows().zip(ly.rows()) {
        let (x, y) = (&x[from..from + n], &mut y[to..to + n]);
        let mean = x.iter().map(|v| v * v).sum::<f32>() / n as f32;
        let scale = (mean + eps).sqrt().recip();
        for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
            *y = x * scale * w;
        }
    }
}

/// A backend that is nothing but the loop.
#[derive(Clone)]
struct Bare(Cpu);
impl Wrapper for Bare {
    type Inner = Cpu;
    fn inner(&self) -> &Cpu {
        &self.0
    }
    fn around(&self, inner: Cpu) -> Self {
        Bare(inner)
    }
}
impl Execute<RmsNorm<f32>> for Bare {
    #[inline]
    fn support(&self, _: &RmsNorm<f32>, on: &dyn Operands) -> Result<(), Reason> {
        on.require_dtype("weight", DType::F32)?;
        on.require_rows_contiguous()
    }
    #[inline]
    fn execute(&self, call: Call<'_, '_, RmsNorm<f32>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let ly = *a.y.layout();
        let weight = a.weight.typed::<f32>().expect("as `support` says");
        rms_norm(a.x.data(), a.x.layout(), weight.data(), op.eps as f32, a.y.data_mut(), &ly);
        Ok(())
    }
}
unsupported!(Bare: LayerNorm<f32>, AddRmsNorm<f32>, GroupNorm<f32>);

/// Nanoseconds a call, the best of several rounds.
fn best(mut f: impl FnMut()) -> f64 {
    const CALLS: u32 = 100_000;
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| f());
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..9).map(round).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<ExitCode> {
    let (bare, cpu) = (Bare(Cpu::new()), Cpu::new());
    let mut code = ExitCode::SUCCESS;
    println!(
        "{:>6} {:>10} {:>14} {:>14} {:>12}",
        "length", "direct ns", "traits ns", "overhead ns", "Cpu ns"
    );
    for n in [8usize, 64, 1024] {
        let (x, weight, mut y) = (vec![1.5f32; n], vec![1.0f32; n], vec![0.0f32; n]);
        let l = Layout::contiguous(&[1, n])?;
        let direct =
            best(|| rms_norm(black_box(&x), black_box(&l), black_box(&weight), 1e-5, black_box(&mut y), &l));
        let (x, weight) = (bare.tensor(&[1, n], &x)?, bare.tensor(&[n], &weight)?);
        let mut y = bare.zeros::<f32>(&[1, n])?;
        let traits = best(|| {
            let (x, weight, y) = (black_box(x.as_ref()), black_box(weight.as_ref()), y.as_mut());
            bare.rms_norm_into(x, weight, black_box(y), RmsNorm::eps(1e-5)).unwrap();
        });
        let fast = best(|| {
            let (x, weight, y) = (black_box(x.as_ref()), black_box(weight.as_ref()), y.as_mut());
            cpu.rms_norm_into(x, weight, black_box(y), RmsNorm::eps(1e-5)).unwrap();
        });
        println!("{n:>6} {direct:>10.1} {traits:>14.1} {:>14.1} {fast:>12.1}", traits - direct);
        if n == 8 && traits - direct > 60.0 && std::env::args().any(|a| a == "--check") {
            eprintln!("the traits cost {:.0} ns at row length 8, more than 60", traits - direct);
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}
