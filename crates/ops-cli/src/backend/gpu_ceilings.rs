//! A GPU's ceilings: copies by its runtime, and matrix products by its fastest provider.
use super::Gpu;
use crate::ceilings::Ceilings;
use crate::timing::median_ns;
use ops_core::ops::MatMulMethods;
use ops_core::{Backend, DType, Float, Result, bf16, f16};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The ceilings of a GPU, each measured once, for about `budget`.
pub(crate) struct GpuCeilings {
    gpu: Gpu,
    budget: Duration,
    copies: BTreeMap<usize, f64>,
    peaks: BTreeMap<&'static str, f64>,
}

impl GpuCeilings {
    pub(crate) fn new(gpu: Gpu, budget: Duration) -> Self {
        GpuCeilings { gpu, budget, copies: BTreeMap::new(), peaks: BTreeMap::new() }
    }
}

impl Ceilings for GpuCeilings {
    fn copy_gbps(&mut self, bytes: usize) -> f64 {
        let (gpu, budget) = (&self.gpu, self.budget);
        *self.copies.entry(bytes).or_insert_with(|| copy_gbps(gpu, bytes, budget).unwrap_or(f64::NAN))
    }

    fn peak_gflops(&mut self, dtype: DType) -> f64 {
        let (gpu, budget) = (&self.gpu, self.budget);
        let peak = |result: Result<f64>| result.unwrap_or(f64::NAN);
        *self.peaks.entry(dtype.name()).or_insert_with(|| match dtype {
            DType::F16 => peak(product_gflops::<f16>(gpu, budget)),
            DType::BF16 => peak(product_gflops::<bf16>(gpu, budget)),
            DType::F64 => peak(product_gflops::<f64>(gpu, budget)),
            _ => peak(product_gflops::<f32>(gpu, budget)),
        })
    }

    fn describe(&self) -> String {
        let device = self.gpu.rocm().map_or_else(
            |error| error.to_string(),
            |rocm| {
                let info = rocm.device().info();
                format!("{} ({})", info.name, info.gfx)
            },
        );
        format!("{device}, its runtime's copies and its fastest matrix products, waits included")
    }
}

/// GB/s of the runtime's copy within device memory, reads and writes counted together.
fn copy_gbps(gpu: &Gpu, bytes: usize, budget: Duration) -> Result<f64> {
    let rocm = gpu.rocm()?;
    let half = (bytes / 2).max(1);
    let from = rocm.zeros::<u8>(&[half])?;
    let mut to = rocm.zeros::<u8>(&[half])?.into_buffer().into_memory();
    let ns = median_ns(budget, || {
        to.copy_from(rocm.stream(), 0, from.buffer().memory(), 0, half)?;
        rocm.synchronize()
    })?;
    Ok(2.0 * half as f64 / ns)
}

/// GFLOP/s of square matrix products: the best over sizes that the budget allows.
fn product_gflops<T: Float>(gpu: &Gpu, budget: Duration) -> Result<f64> {
    let mut best = 0.0f64;
    for n in [64usize, 256, 1024, 4096] {
        let (a, b) = (gpu.rocm()?.zeros::<T>(&[n, n])?, gpu.rocm()?.zeros::<T>(&[n, n])?);
        let multiply = || {
            gpu.rocm()?.matmul(a.as_ref(), b.as_ref())?;
            gpu.synchronize()
        };
        multiply()?;
        let begin = Instant::now();
        multiply()?;
        let once = begin.elapsed();
        best = best.max(2.0 * (n as f64).powi(3) / median_ns(budget, multiply)?);
        // The next size takes up to 64 times as long.
        if once * 64 > budget * 4 {
            break;
        }
    }
    Ok(best)
}
