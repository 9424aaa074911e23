//! Products of rows with their experts' weight matrices.
use super::declare::{family, methods, ops};
use super::matmul::summed_with;
use super::routing::{own_or_f32, three};
use crate::{
    AsAny, AsView, Backend, DType, Error, Execute, Float, Layout, Op, Operand, Operands, Result, Shape,
    Tolerance,
};

mod fused;
mod parts;

use fused::{combined, fuses};

ops! {
    /// `y[i, j] = weight[ids[i, j]] · x[i, min(j, m − 1)] + bias[ids[i, j]]`: a linear layer for each expert of each token.
    ///
    /// Operands: `x[n, m, d]`, where `m` is 1 (all experts of a token get the same row) or `k`; `weight[e, o, d]`
    /// of any float type, or `weight[e, o, d / values]` of a block format with `values` values per block; `ids[n,
    /// k]` of an index type; optional `bias[e, o]` in `T` or f32; `y[n, k, o]`.
    ///
    /// The largest value of the index type means "no expert" and gives zeros, without a bias. Any other id from `e` on is
    /// [`Error::Index`], which the backend reports no later than the next time the queue is waited for. Quantized weights are treated
    /// as in [`Linear`](super::Linear); files and policies then call the op `qlinear_experts`.
    pub struct LinearExperts<T: Float> {}
    const OP;
    operands linear_experts {
        x: in T [n, m, d], weight: in any [e, o, d], ids: in any(indices) [n, k], bias: opt any [e, o], y: out T [n, k, o]
    }

    /// The gated half of the feed-forward blocks of each token's experts: `y[i, j] = silu(g) · u`, with
    /// `g = gate[ids[i, j]] · x[i, min(j, m − 1)] + gate_bias[ids[i, j]]` and `u` likewise. The products are not rounded to `T`.
    ///
    /// With a `limit`, it is the clamped unit of [`SwigluClamped`](super::SwigluClamped): `g` is at most `limit`, `u` from `−limit` to `limit`, and
    /// `y[i, j] = g · sigmoid(alpha · g) · (u + 1)`.
    ///
    /// Operands: `x`, `ids` and the weights `gate[e, o, d]` and `up[e, o, d]` as for [`LinearExperts`]; optional
    /// `gate_bias[e, o]` and `up_bias[e, o]` of f32, or also f64 if `T` is f64; `y[n, k, o]`. A choice of "no expert" gives zeros.
    ///
    /// As parts: two [`LinearExperts`] and a [`Glu`](super::Glu) or [`SwigluClamped`](super::SwigluClamped) in `T::Acc`, then a cast.
    pub struct LinearExpertsSwiglu<T: Float> {
        /// Multiplies the gate inside the sigmoid, if there is a limit.
        pub alpha: f64 = 1.0,
        /// The largest gate, and the largest magnitude of `up`.
        pub limit: Option<f64> = None,
    }
    /// Without a limit.
    fn plain;
    operands linear_experts_swiglu {
        x: in T [n, m, d], gate: in any [e, o, d], up: in any [e, o, d], ids: in any(indices) [n, k],
        gate_bias: opt any [e, o], up_bias: opt any [e, o], y: out T [n, k, o]
    }

    /// The products of the experts of each token, times their weights and added:
    /// `y[i] = Σ_j weights[i, j] · (weight[ids[i, j]] · x[i, j] + bias[ids[i, j]])`, rounded once.
    ///
    /// Operands: `x[n, k, d]`; `weight[e, o, d]` and `ids[n, k]` as for [`LinearExperts`]; optional `bias[e, o]` of f32,
    /// or also f64 if `T` is f64; `weights[n, k]` of f32; `y[n, o]`. A choice of "no expert" adds nothing, if its weight is finite.
    ///
    /// As parts: [`LinearExperts`] and [`CombineExperts`](super::CombineExperts) in `T::Acc`, then a cast.
    pub struct LinearExpertsCombine<T: Float> {}
    const OP;
    operands linear_experts_combine {
        x: in T [n, k, d], weight: in any [e, o, d], ids: in any(indices) [n, k], bias: opt any [e, o],
        weights: in f32 [n, k], y: out T [n, o]
    }
}
impl<T: Float> Op for LinearExperts<T> {
    const OTHER_NAMES: &'static [&'static str] = &["qlinear_experts"];

    fn infer(&self, on: &args::linear_experts::Shapes<'_>) -> Result<[Shape; 1]> {
        let name = self.name();
        let y = products(name, on.x, on.weight, on.ids)?;
        own_or_f32::<T>(name, on.bias, &on.weight.dims()[..2])?;
        Ok([y])
    }
    fn name_on(&self, on: &dyn Operands) -> &'static str {
        on.get("weight").map_or(self.name(), |weight| name_by(weight.dtype))
    }
    fn tolerance(&self, _: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        summed_with(on.get("weight"), dtype)
    }
}

/// The shape `[n, k, o]` of the products of `x[n, m, d]`, with `m` 1 or `k`, with the matrices `weight[e, o, d]` that `ids[n, k]` choose.
fn products(name: &'static str, x: &Layout, weight: Operand<'_>, ids: Operand<'_>) -> Result<Shape> {
    weight.require(name, DType::is_real, "f16, bf16, f32, f64 or a block format")?;
    ids.require(name, DType::is_index, "u8, u32, i32 or i64")?;
    let want = match weight.dtype.values() {
        1 => "[e, o, d]".to_owned(),
        values => format!("[e, o, d / {values}]"),
    };
    let [_, o, _] = three(name, weight.name, weight.layout, &want)?;
    let d = weight.last_values()?;
    let [n, m, columns] = three(name, "x", x, "[n, m, d]")?;
    let &[tokens, k] = ids.dims() else {
        return Err(Error::shape(name, "ids", ids.layout, "[n, k]"));
    };
    if tokens != n {
        return Err(Error::shape(name, "ids", ids.layout, format!("[{n}, k]")));
    }
    if columns != d || m != 1 && m != k {
        let rows = if k == 1 { "1".to_owned() } else { format!("1 or {k}") };
        return Err(Error::shape(name, "x", x, format!("[{n}, {rows}, {d}]")));
    }
    Shape::new(&[n, k, o])
}

/// The name that files and policies use for a weight of this type.
const fn name_by(weight: DType) -> &'static str {
    if weight.is_block() { "qlinear_experts" } else { "linear_experts" }
}

family! {
    /// Products of rows of `T` with their experts' weight matrices, of any float type or block format, and the same fused with a gated unit or a weighted sum.
    pub trait ExpertOps<T: Float>: Execute<LinearExperts<T>>, Execute<LinearExpertsSwiglu<T>>, Execute<LinearExpertsCombine<T>>;
    methods ExpertMethods;
}

/// The methods of [`ExpertOps`].
pub trait ExpertMethods: Backend {
    methods! {
        ExpertOps<T: Float>;
        /// [`LinearExperts`]: the product of each row with the matrices of its experts.
        example
        /// let x = b.tensor(&[1, 1, 2], &[1.0f32, 2.0])?;
        /// // Two experts with one output each.
        /// let weight = b.tensor(&[2, 1, 2], &[1.0f32, 1.0, 10.0, 10.0])?;
        /// let ids = b.tensor(&[1, 3], &[1u32, 0, u32::MAX])?;
        /// let y = b.linear_experts(&x, &weight, &ids, None)?;
        /// assert_eq!(y.dims(), [1, 3, 1]);
        /// assert_eq!(y.to_vec(&b)?, [30.0, 3.0, 0.0]);
        fn linear_experts, linear_experts_into(
            x: in T, weight: in any, ids: in any, bias: opt any; y: T
        ) = linear_experts(LinearExperts::<T>::OP);

        /// [`LinearExpertsSwiglu`]: the gated unit of the experts of each row.
        example
        /// let x = b.tensor(&[1, 1, 2], &[1.0f32, 2.0])?;
        /// // Two experts with one output each.
        /// let gate = b.tensor(&[2, 1, 2], &[0.0f32, 50.0, 0.0, 100.0])?;
        /// let up = b.tensor(&[2, 1, 2], &[3.0f32, 4.0, 0.5, 0.0])?;
        /// let ids = b.tensor(&[1, 2], &[1u32, 0])?;
        /// let y = b.linear_experts_swiglu(&x, &gate, &up, &ids, None, None, LinearExpertsSwiglu::plain())?;
        /// // silu(200) · 0.5 and silu(100) · 11
        /// assert_eq!(y.to_vec(&b)?, [100.0, 1100.0]);
        fn linear_experts_swiglu, linear_experts_swiglu_into(
            x: in T, gate: in any, up: in any, ids: in any, gate_bias: opt any, up_bias: opt any; y: T;
            op: impl Into<LinearExpertsSwiglu<T>>
        ) = linear_experts_swiglu(op.into());

        /// [`LinearExpertsCombine`]: the weighted sum of the products of the experts of each token.
        example
        /// let x = b.tensor(&[1, 2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
        /// let weight = b.tensor(&[2, 1, 2], &[1.0f32, 1.0, 10.0, 10.0])?;
        /// let ids = b.tensor(&[1, 2], &[1u32, 0])?;
        /// let weights = b.tensor(&[1, 2], &[0.5f32, 2.0])?;
        /// // 0.5 · 30 + 2 · 7
        /// assert_eq!(b.linear_experts_combine(&x, &weight, &ids, None, &weights)?.to_vec(&b)?, [29.0]);
        fn linear_experts_combine, linear_experts_combine_into(
            x: in T, weight: in any, ids: in any, bias: opt any, weights: in f32; y: T
        ) = linear_experts_combine(LinearExpertsCombine::<T>::OP);
    }
    /// Whether the backend has fused kernels for [`LinearExpertsSwiglu`] of these operands. If not, the parts in `T` are at least as
    /// fast, but round after each part. Biases and a limit make no difference.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let (x, weight) = (b.zeros::<f32>(&[1, 1, 2])?, b.zeros::<f32>(&[4, 3, 2])?);
    /// let ids = b.zeros::<u32>(&[1, 2])?;
    /// assert!(!b.fuses_linear_experts_swiglu(&x, &weight, &weight, &ids));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn fuses_linear_experts_swiglu<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        gate: impl AsAny<Self::Space>,
        up: impl AsAny<Self::Space>,
        ids: impl AsAny<Self::Space>,
    ) -> bool
    where
        Self: ExpertOps<T>,
    {
        let (x, gate, up, ids) = (x.view().any(), gate.any_view(), up.any_view(), ids.any_view());
        let (x, gate, up, ids) = (x.operand("x"), gate.operand("gate"), up.operand("up"), ids.operand("ids"));
        let y = products("linear_experts_swiglu", x.layout, gate, ids);
        let read = [Some(x), Some(gate), Some(up), Some(ids), None, None];
        fuses::<T, _, _>(self, &LinearExpertsSwiglu::<T>::plain(), &read, y)
    }
    /// The same for [`LinearExpertsCombine`].
    fn fuses_linear_experts_combine<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        ids: impl AsAny<Self::Space>,
        weights: impl AsView<Self::Space, f32>,
    ) -> bool
    where
        Self: ExpertOps<T>,
    {
        let (x, weight, ids, weights) =
            (x.view().any(), weight.any_view(), ids.any_view(), weights.view().any());
        let (x, weight, ids) = (x.operand("x"), weight.operand("weight"), ids.operand("ids"));
        let y = combined("linear_experts_combine", x.layout, weight, ids);
        let read = [Some(x), Some(weight), Some(ids), None, Some(weights.operand("weights"))];
        fuses::<T, _, _>(self, &LinearExpertsCombine::<T>::OP, &read, y)
    }
}
