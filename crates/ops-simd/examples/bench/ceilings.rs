//! The limits of this machine: compute rate and memory bandwidth.

use std::hint::black_box;

use ops_simd::{Simd, Store, VectorFn, cast};

use crate::Bench;

/// Independent fused multiply-adds in registers.
struct Fma(u32);

impl VectorFn for Fma {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let (a, b) = (s.splat(black_box(1.000_000_1)), s.splat(black_box(0.999_999_9)));
        let mut acc = [a; 12];
        for _ in 0..self.0 {
            for acc in &mut acc {
                *acc = s.mul_add(*acc, a, b);
            }
        }
        let mut sum = acc[0];
        for acc in acc {
            sum = s.add(sum, acc);
        }
        s.reduce_add(sum)
    }
}

/// Lanes per vector, for counting operations.
struct Lanes;

impl VectorFn for Lanes {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        S::LANES
    }
}

/// GFLOP/s of fused multiply-adds on one core.
pub(crate) fn fma_peak(bench: &Bench) -> f64 {
    const ROUNDS: u32 = 1_000_000;
    let lanes = bench.isa.run(Lanes);
    let t = bench.best(|| {
        black_box(bench.isa.run(Fma(ROUNDS)));
    });
    f64::from(ROUNDS) * 12.0 * 2.0 * lanes as f64 / t * 1e-9
}

/// GB/s of a copy that reads and writes `bytes` in total, with the better kind of store.
pub(crate) fn copy(bench: &Bench, bytes: usize) -> f64 {
    let x = vec![1f32; bytes / 8];
    let mut y = vec![0f32; bytes / 8];
    let rates = [Store::Cached, Store::Stream].map(|store| {
        let t = bench.best(|| {
            cast(bench.isa, black_box(&x), black_box(&mut y), store).expect("equal lengths");
        });
        bytes as f64 / t * 1e-9
    });
    rates[0].max(rates[1])
}

/// Sums all elements.
struct Read<'a>(&'a [f32]);

impl VectorFn for Read<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let mut acc = [s.splat(0.0); 8];
        for x in self.0.chunks_exact(8 * S::LANES) {
            for (acc, x) in acc.iter_mut().zip(x.chunks_exact(S::LANES)) {
                *acc = s.add(*acc, s.load(x));
            }
        }
        let mut sum = acc[0];
        for acc in acc {
            sum = s.add(sum, acc);
        }
        s.reduce_add(sum)
    }
}

/// GB/s of reading `bytes`.
pub(crate) fn read(bench: &Bench, bytes: usize) -> f64 {
    let x = vec![1f32; bytes / 4];
    let t = bench.best(|| {
        black_box(bench.isa.run(Read(black_box(&x))));
    });
    bytes as f64 / t * 1e-9
}
