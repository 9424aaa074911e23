//! Products with weights.
use crate::call::{on_float, read_host};
use crate::convert::{typed, with_last};
use crate::ops::{Computes, Ops};
use candle_core::{Result, Tensor};
use rocm_ops::model::Weight;
use rocm_ops::prelude::{DType, LinearMethods};

impl<B: Computes> Ops<B> {
    /// Copies a weight of any float type to the backend's memory, for [`linear`](Self::linear) and
    /// [`linear_experts`](Self::linear_experts). A matrix is packed into the order that products read fastest.
    /// `rocm_ops::gguf::Weights` reads such weights from files, of block formats too.
    ///
    /// # Errors
    /// A tensor on another device or of another type; no memory.
    pub fn upload(&self, weight: &Tensor) -> Result<Weight<B::Space>> {
        let weight = weight.contiguous()?;
        read_host("upload", ("weight", &weight), |weight| {
            let (size, extent) = (weight.dtype().size(), weight.layout().extent());
            let bytes = &weight.bytes()[extent.start * size..extent.end * size];
            let copy = self.backend.any_tensor(weight.dtype(), weight.shape(), bytes)?;
            match (weight.dims(), weight.dtype()) {
                ([_, _], DType::F16 | DType::BF16 | DType::F32) => self.backend.pack_weight::<f32>(copy),
                _ => Ok(copy),
            }
        })
    }

    /// `x[.., k] · weight[n, k]ᵀ + bias[n]`, with a weight in the backend's memory.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// let weight = ops.upload(&Tensor::new(&[[1f32, 0.0], [0.0, 1.0], [1.0, 1.0]], &cpu)?)?;
    /// let x = Tensor::new(&[[1f32, 2.0]], &cpu)?;
    /// assert_eq!(ops.linear(&x, &weight, None)?.to_vec2::<f32>()?, [[1.0, 2.0, 3.0]]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`].
    pub fn linear(&self, x: &Tensor, weight: &Weight<B::Space>, bias: Option<&Tensor>) -> Result<Tensor> {
        let dims = with_last(x, weight.dims().first().copied().unwrap_or(0));
        on_float!("linear", "x", x, T => self.compute::<T, 1, 1>(
            "linear", &dims, [("x", x)], [("bias", bias)],
            |[x], [bias], y| self.backend.linear_into(typed::<T, _>("linear", "x", x)?, weight, bias, y),
        ))
    }
}
