//! Products with the matrices of experts.
use crate::call::on_float;
use crate::convert::typed;
use crate::ops::{Computes, Ops};
use candle_core::{Result, Tensor};
use rocm_ops::model::Weight;
use rocm_ops::ops::ExpertMethods;

impl<B: Computes> Ops<B> {
    /// `y[i, j] = weight[ids[i, j]] · x[i, min(j, m − 1)] + bias[ids[i, j]]`: a linear layer for each expert of each token. `x[n, m, d]` with
    /// `m` of 1 or `k`; `weight[e, o, d]` in the backend's memory, of any float type or block format; `ids[n, k]` of u8, u32, i32 or i64,
    /// where the largest value of the type means "no expert" and gives zeros; `bias[e, o]`. Returns `y[n, k, o]`.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// // Two experts with one output each.
    /// let weight = ops.upload(&Tensor::new(&[[[1f32, 1.0]], [[10.0, 10.0]]], &cpu)?)?;
    /// let (x, ids) = (Tensor::new(&[[[1f32, 2.0]]], &cpu)?, Tensor::new(&[[1u32, 0, u32::MAX]], &cpu)?);
    /// let y = ops.linear_experts(&x, &weight, &ids, None)?;
    /// assert_eq!(y.to_vec3::<f32>()?, [[[30.0], [3.0], [0.0]]]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`]; an id of an expert that does not exist.
    pub fn linear_experts(
        &self,
        x: &Tensor,
        weight: &Weight<B::Space>,
        ids: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Tensor> {
        const OP: &str = "linear_experts";
        let extent = |dims: &[usize], axis: usize| dims.get(axis).copied().unwrap_or(0);
        let dims = [extent(ids.dims(), 0), extent(ids.dims(), 1), extent(weight.dims(), 1)];
        on_float!(OP, "x", x, T => self.compute::<T, 2, 1>(
            OP, &dims, [("x", x), ("ids", ids)], [("bias", bias)],
            |[x, ids], [bias], y| {
                self.backend.linear_experts_into(typed::<T, _>(OP, "x", x)?, weight, ids, bias, y)
            },
        ))
    }
}
