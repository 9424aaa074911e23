//! The fast backend: threads over rows, vectors within a row.
//!
//! Every kernel is a loop over rows of its output. [`rows`] finds the rows of any layout, hands
//! them to threads, and gathers and scatters rows that are not contiguous. The arithmetic is in
//! `ops-simd`, on slices. Kernels take element types as values, so each is compiled once, in this
//! crate, and not again in every program that calls it.
use crate::host::{execute_kernels, host_backend};
use core::convert::Infallible;
use ops_core::{Determinism, Error, Result};
use ops_simd::Isa;

mod activation;
mod angles;
mod attention;
mod batch_norm;
mod bitwise;
mod cache;
mod cast;
mod compare;
mod conv;
mod copy;
mod elementwise;
mod experts;
mod f64_rows;
mod gated;
mod index;
mod linear_attention;
mod matmul;
mod norm;
mod packed_weights;
mod parametric;
mod pool;
mod product;
mod qk_norm_rope;
mod quant;
mod reduce;
mod reduce_loops;
mod rope;
mod routing;
mod rows;
mod runs;
mod sampling;
mod scan;
mod scatter;
mod softmax;
mod sort;
mod threads;
#[cfg(test)]
mod unknown_types;
mod upsample;
mod vectors;
mod where_;

/// The fast CPU backend: threaded and vectorised.
///
/// ```
/// use rocm_ops::{Backend, ops::*};
/// use rocm_ops::Cpu;
///
/// let cpu = Cpu::builder().threads(2).build()?;
/// let x = cpu.tensor(&[3], &[1.0f32, 2.0, 3.0])?;
/// assert_eq!(cpu.add(&x, &x)?.to_vec(&cpu)?, [2.0, 4.0, 6.0]);
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    pool: Option<threads::Pool>,
    wanted: Determinism,
    activations: Activations,
}

/// What [`Cpu`] multiplies quantized weights by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// Activations rounded to 8 bits, with one scale for each 32 values, as in llama.cpp. In most products of three rows or
    /// more, those above eight times the root mean square of their row are not rounded (docs/formats.md). Where two tokens are almost equally
    /// likely, this can change which is generated.
    #[default]
    Rounded,
    /// Activations as they are, times weights that are decoded to f32. Slower: docs/run-your-model.md has measurements.
    Exact,
}

impl Cpu {
    /// Creates the backend. It runs on rayon's current thread pool.
    ///
    /// If the environment variable `OPS_SIMD` names no instruction set of this processor, a line on standard error says so, and the
    /// best one is used; [`CpuBuilder::build`] returns an error instead.
    pub fn new() -> Self {
        Cpu::default()
    }
    /// The CPU backend with options.
    pub fn builder() -> CpuBuilder {
        CpuBuilder::default()
    }
    /// Threads that a call may use, including the caller's.
    pub fn threads(&self) -> usize {
        threads::with_pool(self.pool.as_ref(), threads::count)
    }
    /// Why calls have fewer threads than the machine has processors: the system did not start them, because of a limit of the
    /// process or its container. `None` if nothing failed. Calls then compute on those that there are, at least the caller's.
    pub fn threads_refused(&self) -> Option<&'static str> {
        if self.pool.is_some() { None } else { threads::refused() }
    }
    /// Calls `f` with each of `parts`, on the threads that calls of this backend use. Panics of `f` reach the caller.
    ///
    /// ```
    /// let cpu = rocm_ops::Cpu::new();
    /// let mut values = vec![0; 1000];
    /// let parts = values.chunks_mut(100).enumerate().collect();
    /// cpu.for_each_part(parts, |(i, part): (usize, &mut [usize])| part.fill(i));
    /// assert_eq!(values[250], 2);
    /// ```
    pub fn for_each_part<P: Send>(&self, parts: Vec<P>, f: impl Fn(P) + Sync) {
        let each = |part| {
            f(part);
            Ok(())
        };
        let done: Result<(), Infallible> =
            threads::with_pool(self.pool.as_ref(), || threads::for_each_part(parts, &each));
        match done {
            Ok(()) => {}
        }
    }
    /// Returns memory that is kept for the next tensors to the system; returns the number of bytes. All
    /// backends in host memory share the kept memory, at most 1 GiB.
    ///
    /// ```
    /// use rocm_ops::Backend;
    /// # let cpu = rocm_ops::Cpu::new();
    /// drop(cpu.zeros::<f32>(&[1000])?);
    /// println!("{} bytes given back", cpu.trim());
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    pub fn trim(&self) -> usize {
        crate::host::trim()
    }
}

/// Options of a [`Cpu`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBuilder {
    threads: Option<usize>,
    determinism: Determinism,
    activations: Activations,
}

impl CpuBuilder {
    /// Sets the maximum number of threads per call, including the caller's. Backends with the same number
    /// share their threads, which end when the last of these backends is dropped.
    pub fn threads(self, threads: usize) -> Self {
        CpuBuilder { threads: Some(threads), ..self }
    }
    /// Requires at least this level for every call; calls that cannot reach it are unsupported. With
    /// [`Batch`](Determinism::Batch), products and attention sum each row in an order that does not depend on
    /// the other rows.
    ///
    /// ```
    /// use rocm_ops::{Backend, Determinism, ops::*};
    /// use rocm_ops::Cpu;
    ///
    /// let cpu = Cpu::builder().determinism(Determinism::Batch).build()?;
    /// let x = cpu.tensor(&[2, 3], &[0.1f32, 0.2, 0.3, 0.4, 0.5, 0.6])?;
    /// let weight = cpu.tensor(&[1, 3], &[1.0f32, 2.0, 3.0])?;
    /// let both = cpu.linear(&x, &weight)?.to_vec(&cpu)?;
    /// assert_eq!(cpu.linear(x.as_ref().narrow(0, 1, 1)?, &weight)?.to_vec(&cpu)?, both[1..]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    pub fn determinism(self, determinism: Determinism) -> Self {
        CpuBuilder { determinism, ..self }
    }
    /// Chooses what quantized weights are multiplied by. Pack weights with the backend that will use them: with
    /// [`Activations::Exact`], those packed for [`Activations::Rounded`] are unpacked in every call.
    ///
    /// ```
    /// use rocm_ops::{Backend, DType, ops::*, quant::Q8_0};
    /// use rocm_ops::{Activations, Cpu, Reference};
    ///
    /// let cpu = Cpu::builder().activations(Activations::Exact).build()?;
    /// let values: Vec<f32> = (0..64 * 32).map(|i| (i as f32 * 0.37).sin()).collect();
    /// let weight = cpu.quantize(&cpu.tensor(&[64, 32], &values)?, DType::Block(&Q8_0))?;
    /// let x = cpu.tensor(&[1, 32], &values[..32])?;
    /// let got = cpu.linear(&x, &weight)?.to_vec(&cpu)?;
    /// let want = Reference::new().linear(&x, &weight)?.to_vec(&cpu)?;
    /// assert!(got.iter().zip(&want).all(|(got, want)| (got - want).abs() < 1e-5));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    pub fn activations(self, activations: Activations) -> Self {
        CpuBuilder { activations, ..self }
    }
    /// Creates the backend.
    ///
    /// # Errors
    /// [`Error::Param`] for 0 threads, and if `OPS_SIMD` names no instruction set of this processor; [`Error::Device`] if the system starts no more.
    pub fn build(self) -> Result<Cpu> {
        if let Err(unknown) = Isa::from_env() {
            let wanted = format!("one of {}", unknown.wanted.join(", "));
            return Err(Error::param("cpu", "OPS_SIMD", unknown.got, wanted));
        }
        let (wanted, activations) = (self.determinism, self.activations);
        let Some(threads) = self.threads else { return Ok(Cpu { pool: None, wanted, activations }) };
        if threads == 0 {
            return Err(Error::param("cpu", "threads", 0, "one or more"));
        }
        let failed = |error: rayon::ThreadPoolBuildError| Error::Device {
            backend: "cpu",
            call: "starting threads",
            status: format!("{error}; ask for fewer than {threads}"),
        };
        Ok(Cpu { pool: Some(threads::pool(threads).map_err(failed)?), wanted, activations })
    }
}

host_backend!(Cpu, "cpu", |cpu, bytes| threads::with_pool(cpu.pool.as_ref(), || threads::zero(bytes)));
execute_kernels!(Cpu, |cpu, kernel| threads::with_pool(cpu.pool.as_ref(), || threads::with_mode(
    cpu.mode(),
    kernel
)));

impl Cpu {
    fn mode(&self) -> threads::Mode {
        threads::Mode { by_row: self.sums_by_row(), exact: self.activations == Activations::Exact }
    }
    fn sums_by_row(&self) -> bool {
        self.wanted > Determinism::Run
    }
    /// The level that every call must have at least.
    pub(crate) fn wanted(&self) -> Determinism {
        self.wanted
    }
    /// The level of kernels that sum a row in the fastest order for the number of rows, unless required not
    /// to.
    fn sums_level(&self) -> Determinism {
        if self.sums_by_row() { Determinism::Batch } else { Determinism::Run }
    }
}
