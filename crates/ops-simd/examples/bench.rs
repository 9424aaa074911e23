//! Times the kernels on one thread against what the machine can do, measured in the same run.
//!
//! `cargo run --release -p ops-simd --example bench [-- PART..]`, PART a prefix of a line's name. Set `OPS_SIMD` to time a lesser
//! instruction set.

#[path = "bench/ceilings.rs"]
mod ceilings;
#[path = "bench/elementwise.rs"]
mod elementwise;
#[path = "bench/gemm.rs"]
mod gemm;

use std::time::Instant;

use ops_simd::Isa;

/// What every measurement needs.
pub(crate) struct Bench {
    isa: Isa,
    filters: Vec<String>,
}

impl Bench {
    /// Whether any line of a group may be wanted.
    fn group(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|f| f.split('/').next() == Some(name))
    }

    fn wanted(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|f| name.starts_with(f.as_str()))
    }

    /// The best time of several, in seconds.
    fn best(&self, mut f: impl FnMut()) -> f64 {
        f();
        let (mut best, mut spent, mut runs) = (f64::INFINITY, 0.0, 0);
        while spent < 0.25 || runs < 5 {
            let start = Instant::now();
            f();
            let t = start.elapsed().as_secs_f64();
            (best, spent, runs) = (best.min(t), spent + t, runs + 1);
        }
        best
    }

    /// Times `f`, which moves `bytes`, against a copy that moves as many.
    fn bandwidth(&self, name: &str, bytes: usize, copy: f64, f: impl FnMut()) {
        if !self.wanted(name) {
            return;
        }
        let t = self.best(f);
        let rate = bytes as f64 / t * 1e-9;
        println!("{name:36} {:10.1} us {rate:7.1} GB/s {:5.0} % of copy", t * 1e6, rate / copy * 100.0);
    }

    /// Times `f`, which computes `flops`, against the peak.
    #[allow(dead_code)]
    fn compute(&self, name: &str, flops: f64, peak: f64, f: impl FnMut()) {
        if !self.wanted(name) {
            return;
        }
        let t = self.best(f);
        let rate = flops / t * 1e-9;
        println!("{name:36} {:10.1} us {rate:7.1} GFLOP/s {:5.0} % of peak", t * 1e6, rate / peak * 100.0);
    }
}

fn main() {
    let bench = Bench { isa: Isa::best(), filters: std::env::args().skip(1).collect() };
    println!("{} of {:?}", bench.isa, Isa::available().iter().map(|isa| isa.name()).collect::<Vec<_>>());
    println!("FMA peak {:.1} GFLOP/s", ceilings::fma_peak(&bench));
    for (name, run) in [("map", elementwise::run as fn(&Bench)), ("gemm", gemm::run)] {
        if bench.group(name) {
            run(&bench);
        }
    }
}
