//! The machine's ceilings: bytes copied and multiply-adds computed per second.
use crate::timing::{best_ns, median_ns};
use ops_core::DType;
use ops_cpu::Cpu;
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

/// The ceilings of this machine's CPU, on the threads of a backend.
pub(crate) struct HostCeilings {
    /// `None` has only the caller's thread.
    cpu: Option<Cpu>,
    budget: Duration,
    copies: BTreeMap<usize, f64>,
    peaks: [Option<f64>; 2],
}

impl HostCeilings {
    /// The ceilings on the threads of `cpu`, or on the caller's; each is measured for about `budget`.
    pub(crate) fn new(cpu: Option<Cpu>, budget: Duration) -> Self {
        HostCeilings { cpu, budget, copies: BTreeMap::new(), peaks: [None; 2] }
    }
}

impl Ceilings for HostCeilings {
    fn copy_gbps(&mut self, bytes: usize) -> f64 {
        let (cpu, budget) = (self.cpu.as_ref(), self.budget);
        *self.copies.entry(bytes).or_insert_with(|| copy_gbps(bytes, cpu, budget))
    }
    fn peak_gflops(&mut self, dtype: DType) -> f64 {
        let wide = dtype == DType::F64;
        let (cpu, budget) = (self.cpu.as_ref(), self.budget);
        *self.peaks[usize::from(wide)].get_or_insert_with(|| peak_gflops(wide, cpu, budget))
    }
    fn describe(&self) -> String {
        let threads = threads(self.cpu.as_ref());
        let plural = if threads == 1 { "" } else { "s" };
        format!("{threads} thread{plural}")
    }
}

fn threads(cpu: Option<&Cpu>) -> usize {
    cpu.map_or(1, Cpu::threads)
}

/// The best of four copies: with one thread or all, with plain or streaming stores.
fn copy_gbps(bytes: usize, cpu: Option<&Cpu>, budget: Duration) -> f64 {
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
        for cpu in if threads(cpu) == 1 { vec![None] } else { vec![None, cpu] } {
            let piece = half.div_ceil(threads(cpu)).next_multiple_of(4096);
            let copy = |s: &[u8], d: &mut [u8]| {
                if plain {
                    d.copy_from_slice(s);
                } else {
                    fma::streaming_copy(s, d);
                }
            };
            let ns = median_ns(budget, || {
                let (s, d) = (black_box(&src[..]), black_box(&mut dst[..]));
                match cpu {
                    None => copy(s, d),
                    Some(cpu) => {
                        let pieces = d.chunks_mut(piece).zip(s.chunks(piece)).collect();
                        cpu.for_each_part(pieces, |(d, s): (&mut [u8], &[u8])| copy(s, d));
                    }
                }
                Ok(())
            });
            best = best.min(ns.unwrap_or(f64::INFINITY));
        }
    }
    2.0 * half as f64 / best
}

fn peak_gflops(wide: bool, cpu: Option<&Cpu>, budget: Duration) -> f64 {
    let kernel = if wide { fma::multiply_add_f64 } else { fma::multiply_add_f32 };
    const STEPS: usize = 20_000;
    let once = || {
        let (ops, sum) = kernel(black_box(STEPS));
        black_box(sum);
        ops
    };
    let operations = once() * threads(cpu) as f64;
    let ns = best_ns(budget, || {
        let each = |()| {
            once();
        };
        match cpu {
            None => each(()),
            Some(cpu) => cpu.for_each_part(vec![(); cpu.threads()], each),
        }
        Ok(())
    });
    ns.map_or(0.0, |ns| operations / ns)
}
