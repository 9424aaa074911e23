//! The fast backend: threads over rows, vectors within a row.
//!
//! Every kernel is a loop over rows of its output. [`rows`] finds the rows of any layout, hands
//! them to threads, and gathers and scatters rows that are not contiguous. The arithmetic is in
//! `ops-simd`, on slices. Kernels take element types as values, so each is compiled once, in this
//! crate, and not again in every program that calls it.
use crate::host::{execute_kernels, host_backend};

mod attention;
mod elementwise;
mod index;
mod matmul;
mod norm;
mod panels;
mod quant;
mod rope;
mod rows;
mod softmax;
mod threads;
#[cfg(test)]
mod unknown_types;
mod vectors;
mod wide;

/// The fast CPU backend: threaded and vectorised.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Cpu {
    /// Creates the backend. It runs on rayon's current thread pool.
    pub fn new() -> Self {
        Cpu
    }
}

host_backend!(Cpu, "cpu");
execute_kernels!(Cpu);
