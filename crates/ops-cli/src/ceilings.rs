//! The machine's ceilings: bytes copied and multiply-adds computed per second.
use crate::timing::{best_ns, median_ns};
use ops_core::DType;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

#[allow(unsafe_code)]
mod fma;

/// The limits that results are compared with, measured in the same run as the results.
pub(crate) trait Ceilings {
    /// GB/s of a copy that moves `bytes`, reads and writes counted together.
    fn copy_gbps(&mut self, bytes: usize) -> f64;
    /// GFLOP/s of fused multiply-adds, in the accumulator type of `dtype`.
    fn peak_gflops(&mut self, dtype: DType) -> f64;
    /// A description of what the ceilings were measured on, for the last line of `ops bench`.
    fn describe(&self) -> String;
}

/// The ceilings of this machine's CPU, on some of its threads.
pub(crate) struct HostCeilings {
    threads: usize,
    budget: Duration,
    copies: BTreeMap<usize, f64>,
    peaks: [Option<f64>; 2],
}

impl HostCeilings {
    /// The ceilings with this number of threads; each is measured for about `budget`.
    pub(crate) fn new(threads: usize, budget: Duration) -> Self {
        HostCeilings { threads, budget, copies: BTreeMap::new(), peaks: [None; 2] }
    }
}

impl Ceilings for HostCeilings {
    fn copy_gbps(&mut self, bytes: usize) -> f64 {
        let (threads, budget) = (self.threads, self.budget);
        *self.copies.entry(bytes).or_insert_with(|| copy_gbps(bytes, threads, budget))
    }
    fn peak_gflops(&mut self, dtype: DType) -> f64 {
        let wide = dtype == DType::F64;
        let (threads, budget) = (self.threads, self.budget);
        *self.peaks[usize::from(wide)].get_or_insert_with(|| peak_gflops(wide, threads, budget))
    }
    fn describe(&self) -> String {
        let plural = if self.threads == 1 { "" } else { "s" };
        format!("{} thread{plural}", self.threads)
    }
}

/// The best of four copies: with one thread or all, with plain or streaming stores.
fn copy_gbps(bytes: usize, threads: usize, budget: Duration) -> f64 {
    let half = (bytes / 2).max(1);
    // Written first, so that both are mapped before the clock starts.
    let (src, mut dst) = (vec![1u8; half], vec![2u8; half]);
    let mut best = f64::INFINITY;
    let streams = fma::streaming_copy(&src, &mut dst);
    for plain in [true, false] {
        // Streaming stores never win on buffers that fit the caches.
        if !plain && (!streams || half < 1 << 20) {
            continue;
        }
        for parts in if threads == 1 { vec![1] } else { vec![1, threads] } {
            let piece = half.div_ceil(parts).next_multiple_of(4096);
            let copy = |s: &[u8], d: &mut [u8]| {
                if plain {
                    d.copy_from_slice(s);
                } else {
                    fma::streaming_copy(s, d);
                }
            };
            let ns = median_ns(budget, || {
                let (s, d) = (black_box(&src[..]), black_box(&mut dst[..]));
                if parts == 1 {
                    copy(s, d);
                } else {
                    d.par_chunks_mut(piece).zip(s.par_chunks(piece)).for_each(|(d, s)| copy(s, d));
                }
                Ok(())
            });
            best = best.min(ns.unwrap_or(f64::INFINITY));
        }
    }
    2.0 * half as f64 / best
}

fn peak_gflops(wide: bool, threads: usize, budget: Duration) -> f64 {
    let kernel = if wide { fma::multiply_add_f64 } else { fma::multiply_add_f32 };
    const STEPS: usize = 20_000;
    let once = || {
        let (ops, sum) = kernel(black_box(STEPS));
        black_box(sum);
        ops
    };
    let mut operations = 0.0;
    let ns = best_ns(budget, || {
        operations = if threads == 1 { once() } else { rayon::broadcast(|_| once()).into_iter().sum() };
        Ok(())
    });
    ns.map_or(0.0, |ns| operations / ns)
}
