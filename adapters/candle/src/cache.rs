//! Writing rows to caches.
use crate::call::on_float;
use crate::convert::typed;
use crate::ops::{Computes, Ops};
use candle_core::{Result, Tensor};
use rocm_ops::ops::CacheMethods;

impl<B: Computes> Ops<B> {
    /// Writes rows in place: `cache[slots[i], ..] = x[i, ..]`. `x[n, h, d]`; `slots[n]` of u8, u32, i32 or i64, where the largest value of
    /// the type skips the row; `cache[c, h, d]` of the type of `x`. A cache of another order, such as `[heads, tokens, d]`, is passed as a
    /// transposed view.
    ///
    /// ```
    /// # use candle_core::{DType, Device, Tensor};
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// let cache = Tensor::zeros((3, 1, 2), DType::F32, &cpu)?;
    /// let x = Tensor::new(&[[[1f32, 2.0]], [[3.0, 4.0]]], &cpu)?;
    /// ops.cache_write(&x, &Tensor::new(&[2u32, 0], &cpu)?, &cache)?;
    /// assert_eq!(cache.flatten_all()?.to_vec1::<f32>()?, [3.0, 4.0, 0.0, 0.0, 1.0, 2.0]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`]; a slot that the cache does not have; a cache that shares memory with `x` or `slots`; a tensor that candle
    /// tracks for gradients.
    pub fn cache_write(&self, x: &Tensor, slots: &Tensor, cache: &Tensor) -> Result<()> {
        const OP: &str = "cache_write";
        on_float!(OP, "x", x, T => self.write::<T, 2, 0>(
            OP, ("cache", cache), [("x", x), ("slots", slots)], [],
            |[x, slots], [], cache| self.backend.cache_write::<T, T>(typed::<T, _>(OP, "x", x)?, slots, cache),
        ))
    }
}
