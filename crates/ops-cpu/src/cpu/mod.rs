//! The fast backend: rows on threads, vectors in rows.
//!
//! Every kernel is a loop over rows of its output. [`rows`] finds the rows of any layout, hands
//! them to threads, and gathers and scatters those that do not stand in one piece; the arithmetic
//! is that of `ops-simd`, on slices. Kernels take operands whose types are values, so they are
//! compiled here and not in every program that calls them.
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

/// Threaded and vectorised.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Cpu {
    /// The CPU backend, on the threads of the global pool.
    pub fn new() -> Self {
        Cpu
    }
}

host_backend!(Cpu, "cpu");
execute_kernels!(Cpu);
