//! Norms, softmax and gated activations: ops on rows or elements.
use crate::call::on_float;
use crate::convert::{Number, typed};
use crate::memory::sealed::Exchange;
use crate::ops::{Computes, Ops};
use crate::result;
use candle_core::{Result, Tensor};
use rocm_ops::ops::{ActivationMethods, NormMethods, Softmax, SoftmaxMethods};
use rocm_ops::{Host, Shape};

impl<B: Computes> Ops<B> {
    /// `x / sqrt(mean(x²) + eps) · weight`, with the mean over the last axis. `x[.., n]`, `weight[n]`.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// let (x, weight) = (Tensor::new(&[[1f32, 7.0]], &cpu)?, Tensor::new(&[1f32, 2.0], &cpu)?);
    /// assert_eq!(ops.rms_norm(&x, &weight, 0.0)?.to_vec2::<f32>()?, [[0.2, 2.8]]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`].
    pub fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
        on_float!("rms_norm", "x", x, T => self.compute::<T, 2, 0>(
            "rms_norm", x.dims(), [("x", x), ("weight", weight)], [],
            |[x, weight], [], y| self.backend.rms_norm_into(typed::<T, _>("rms_norm", "x", x)?, weight, y, eps),
        ))
    }

    /// `(x − mean) / sqrt(var + eps) · weight + bias` over the last axis. `x[.., n]`, `weight[n]`, `bias[n]`.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// let (x, bias) = (Tensor::new(&[[1f32, 3.0]], &cpu)?, Tensor::new(&[10f32, 20.0], &cpu)?);
    /// assert_eq!(ops.layer_norm(&x, None, Some(&bias), 0.0)?.to_vec2::<f32>()?, [[9.0, 21.0]]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`].
    pub fn layer_norm(
        &self,
        x: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        on_float!("layer_norm", "x", x, T => self.compute::<T, 1, 2>(
            "layer_norm", x.dims(), [("x", x)], [("weight", weight), ("bias", bias)],
            |[x], [weight, bias], y| {
                self.backend.layer_norm_into(typed::<T, _>("layer_norm", "x", x)?, weight, bias, y, eps)
            },
        ))
    }

    /// `sum = x + residual` and `y = rms_norm(sum)`; returns `(y, sum)`.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// let (x, residual) = (Tensor::new(&[[0f32, 3.0]], &cpu)?, Tensor::new(&[[1f32, 4.0]], &cpu)?);
    /// let weight = Tensor::new(&[1f32, 2.0], &cpu)?;
    /// let (y, sum) = ops.add_rms_norm(&x, &residual, &weight, 0.0)?;
    /// assert_eq!(sum.to_vec2::<f32>()?, [[1.0, 7.0]]);
    /// assert_eq!(y.to_vec2::<f32>()?, [[0.2, 2.8]]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`].
    pub fn add_rms_norm(
        &self,
        x: &Tensor,
        residual: &Tensor,
        weight: &Tensor,
        eps: f64,
    ) -> Result<(Tensor, Tensor)> {
        const OP: &str = "add_rms_norm";
        let (dims, operands) = (x.dims(), [("x", x), ("residual", residual), ("weight", weight)]);
        on_float!(OP, "x", x, T => {
            let (y, sum) = self.read(OP, operands, [], |[x, residual, weight], []| {
                let (x, residual) = (typed::<T, _>(OP, "x", x)?, typed(OP, "residual", residual)?);
                let shape = Shape::new(dims)?;
                let mut sum = T::zeros(shape.len());
                let y = self.output::<T>(dims, |y| {
                    B::Space::lend(&self.backend, Host::view_mut(&mut sum, shape)?, false, |sum| {
                        self.backend.add_rms_norm_into(x, residual, weight, y, sum, eps)
                    })
                })?;
                Ok((y, sum))
            })?;
            Ok((result::tensor(OP, &operands, y, dims)?, result::tensor(OP, &operands, sum, dims)?))
        })
    }

    /// `exp(x − max) / Σ exp(x − max)` along `axis`; negative axes count from the end.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// let x = Tensor::new(&[[0f32, 0.0], [7.0, 7.0]], &cpu)?;
    /// assert_eq!(ops.softmax(&x, -1)?.to_vec2::<f32>()?, [[0.5; 2]; 2]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`]; an axis that does not exist.
    pub fn softmax(&self, x: &Tensor, axis: isize) -> Result<Tensor> {
        on_float!("softmax", "x", x, T => self.compute::<T, 1, 0>(
            "softmax", x.dims(), [("x", x)], [],
            |[x], [], y| self.backend.softmax_into(typed::<T, _>("softmax", "x", x)?, y, Softmax::axis(axis)),
        ))
    }

    /// `silu(gate) · up`.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// let (gate, up) = (Tensor::new(&[0f32, 100.0], &cpu)?, Tensor::new(&[5f32, 2.0], &cpu)?);
    /// assert_eq!(ops.swiglu(&gate, &up)?.to_vec1::<f32>()?, [0.0, 200.0]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`].
    pub fn swiglu(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        on_float!("swiglu", "gate", gate, T => self.compute::<T, 2, 0>(
            "swiglu", gate.dims(), [("gate", gate), ("up", up)], [],
            |[gate, up], [], y| {
                self.backend.swiglu_into(typed::<T, _>("swiglu", "gate", gate)?, typed::<T, _>("swiglu", "up", up)?, y)
            },
        ))
    }
}
