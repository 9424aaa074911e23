//! Times the kernels on one thread and compares them with this machine's limits, measured in the same run.
//!
//! `cargo run --release -p ops-simd --example bench [-- PART..]`, where PART is a prefix of a line's name.
//! Set `OPS_SIMD` to time an older instruction set.

mod ceilings;
mod elementwise;
mod gemm;
mod weights;

use ops_simd::Isa;

/// The inputs of every measurement.
pub(crate) struct Bench {
    isa: Isa,
    filters: Vec<String>,
}

impl Bench {
    /// Whether to run any line of this group.
    fn group(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|f| f.split('/').next() == Some(name))
    }

    fn wanted(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|f| name.starts_with(f.as_str()))
    }

    /// The best processor time of several runs, in seconds. Processor time excludes other programs.
    fn best(&self, mut f: impl FnMut()) -> f64 {
        let start = cpu_seconds();
        f();
        let first = cpu_seconds() - start;
        // Run short functions many times per measurement, because reading the clock takes a while.
        let batch = (2e-4 / first.max(1e-7)).ceil();
        let (mut best, mut spent, mut runs) = (f64::INFINITY, 0.0, 0);
        while spent < 0.25 || runs < 5 {
            let start = cpu_seconds();
            for _ in 0..batch as usize {
                f();
            }
            let t = cpu_seconds() - start;
            (best, spent, runs) = (best.min(t / batch), spent + t, runs + 1);
        }
        best
    }

    /// Times `f`, which moves `bytes`, and compares it with a bandwidth of `most` GB/s.
    fn bandwidth(&self, name: &str, bytes: usize, most: f64, f: impl FnMut()) {
        if !self.wanted(name) {
            return;
        }
        let t = self.best(f);
        let rate = bytes as f64 / t * 1e-9;
        println!(
            "{name:36} {:10.1} us {rate:7.1} GB/s {:5.0} % of memory bandwidth",
            t * 1e6,
            rate / most * 100.0
        );
    }

    /// Times `f`, which computes `flops`, and compares it with the peak.
    fn compute(&self, name: &str, flops: f64, peak: f64, f: impl FnMut()) {
        if !self.wanted(name) {
            return;
        }
        let t = self.best(f);
        let rate = flops / t * 1e-9;
        println!("{name:36} {:10.1} us {rate:7.1} GFLOP/s {:5.0} % of peak", t * 1e6, rate / peak * 100.0);
    }
}

/// This thread's processor time.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that may be written.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "the system has no clock for a thread's processor time");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn main() {
    let bench = Bench { isa: Isa::best(), filters: std::env::args().skip(1).collect() };
    println!("{} of {:?}", bench.isa, Isa::available().iter().map(|isa| isa.name()).collect::<Vec<_>>());
    println!("FMA peak {:.1} GFLOP/s", ceilings::fma_peak(&bench));
    for (name, run) in
        [("map", elementwise::run as fn(&Bench)), ("gemm", gemm::run), ("weights", weights::run)]
    {
        if bench.group(name) {
            run(&bench);
        }
    }
}
