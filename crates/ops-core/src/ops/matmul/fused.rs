//! Products fused with the step before or after them.
use super::{rows_times, summed_with};
use crate::ops::declare::{family, methods, ops};
use crate::ops::extents;
use crate::ops::norm::{valid_eps, weights};
use crate::parts::{Planned, made};
use crate::{
    AsAny, AsOptional, AsView, Backend, DType, Error, Execute, Float, Layout, Op, Operand, Operands, Result,
    Role, Shape, Tolerance,
};

pub(in crate::ops) mod parts;

ops! {
    /// The gated half of a feed-forward block: `y = silu(x · gateᵀ) · (x · upᵀ)`. The products are not rounded to `T`.
    ///
    /// Operands: `x[.., k]`; `gate[n, k]` and `up[n, k]`, each of any float type or block format, as the weight of
    /// [`Linear`](super::Linear); `y[.., n]`.
    ///
    /// As parts: two [`Linear`](super::Linear) and a [`Glu`](crate::ops::Glu) in `T::Acc`, then a cast. Shazeer, "GLU Variants Improve
    /// Transformer", 2020.
    pub struct LinearSwiglu<T: Float> {}
    const OP;
    operands linear_swiglu { x: in T [.., k], gate: in any [n, k], up: in any [n, k], y: out T [.., n] }

    /// A product added to the residual stream of a decoder: `y = x · weightᵀ + residual`, rounded once.
    ///
    /// Operands: `x[.., k]`; `weight[n, k]` as for [`Linear`](super::Linear); `residual[.., n]`; `y[.., n]`.
    pub struct LinearAdd<T: Float> {}
    const OP;
    operands linear_add { x: in T [.., k], weight: in any [n, k], residual: in T [.., n], y: out T [.., n] }

    /// A product of normed rows: `y = rms_norm(x) · weightᵀ + bias`. The normed rows are not rounded to `T`.
    ///
    /// Operands: `x[.., k]`; the weight `norm[k]` of the norm, of any float type; `weight[n, k]` and optional `bias[n]` as for
    /// [`Linear`](super::Linear); `y[.., n]`. The norm is an [`RmsNorm`](crate::ops::RmsNorm).
    pub struct RmsNormLinear<T: Float> {
        /// Added to the mean square, inside the root.
        pub eps: f64,
    }
    /// Norms with this `eps`.
    fn eps;
    operands rms_norm_linear {
        x: in T [.., k], norm: in any(floats) [k], weight: in any [n, k], bias: opt any(floats) [n], y: out T [.., n]
    }

    /// The gated half of a feed-forward block, of normed rows: [`LinearSwiglu`] of `rms_norm(x)`, which is not rounded to `T`.
    ///
    /// Operands: `x[.., k]`; the weight `norm[k]` of the norm, of any float type; `gate`, `up` and `y` as for [`LinearSwiglu`].
    pub struct RmsNormLinearSwiglu<T: Float> {
        /// Added to the mean square, inside the root.
        pub eps: f64,
    }
    /// Norms with this `eps`.
    fn eps;
    operands rms_norm_linear_swiglu {
        x: in T [.., k], norm: in any(floats) [k], gate: in any [n, k], up: in any [n, k], y: out T [.., n]
    }
}
impl<T: Float> Op for LinearSwiglu<T> {
    fn infer(&self, on: &args::linear_swiglu::Shapes<'_>) -> Result<[Shape; 1]> {
        Ok([gated_shape(self.name(), on.x, on.gate, on.up)?])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        of_gated(dtype, on)
    }
}
impl<T: Float> Op for LinearAdd<T> {
    fn infer(&self, on: &args::linear_add::Shapes<'_>) -> Result<[Shape; 1]> {
        let y = product_shape(self.name(), on.x, on.weight)?;
        extents(self.name(), "residual", on.residual, y.dims())?;
        Ok([y])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        summed_with(on.get("weight"), dtype)
    }
}
impl<T: Float> Op for RmsNormLinear<T> {
    fn infer(&self, on: &args::rms_norm_linear::Shapes<'_>) -> Result<[Shape; 1]> {
        let op = self.name();
        valid_eps(op, self.eps)?;
        let y = product_shape(op, on.x, on.weight)?;
        weights(op, Some(on.norm), on.x.last())?;
        weights(op, on.bias, y.dims().last().copied().unwrap_or(0))?;
        Ok([y])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        summed_with(on.get("weight"), dtype)
    }
}
impl<T: Float> Op for RmsNormLinearSwiglu<T> {
    fn infer(&self, on: &args::rms_norm_linear_swiglu::Shapes<'_>) -> Result<[Shape; 1]> {
        let op = self.name();
        valid_eps(op, self.eps)?;
        let y = gated_shape(op, on.x, on.gate, on.up)?;
        weights(op, Some(on.norm), on.x.last())?;
        Ok([y])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        of_gated(dtype, on)
    }
}

/// The shape of `x[.., k]` times a weight of any float type or block format.
fn product_shape(op: &'static str, x: &Layout, weight: Operand<'_>) -> Result<Shape> {
    weight.require(op, DType::is_real, "f16, bf16, f32, f64 or a block format")?;
    match *weight.dims() {
        [n, _] => rows_times(op, x, n, weight),
        _ => Err(Error::shape(op, weight.name, weight.layout, "[n, k], or [n, k / values] in blocks")),
    }
}

/// The shape of `x[.., k]` times both weights of a gated unit.
fn gated_shape(op: &'static str, x: &Layout, gate: Operand<'_>, up: Operand<'_>) -> Result<Shape> {
    let y = product_shape(op, x, gate)?;
    up.require(op, DType::is_real, "f16, bf16, f32, f64 or a block format")?;
    let (n, values) = (gate.dims()[0], gate.last_values()?);
    match *up.dims() {
        [rows, _] if rows == n && up.last_values()? == values => Ok(y),
        _ => {
            let want = format!("[{n}, k] with k = {values} values, as in `gate`");
            Err(Error::shape(op, "up", up.layout, want))
        }
    }
}

/// The tolerance of a gated unit: that of the gate's weight, unless only the up has blocks.
pub(in crate::ops) fn of_gated(dtype: DType, on: &dyn Operands) -> Tolerance {
    let blocks = ["gate", "up"].into_iter().find(|name| on.get(name).is_some_and(|w| w.dtype.is_block()));
    summed_with(on.get(blocks.unwrap_or("gate")), dtype)
}

family! {
    /// Products in `T` fused with the step before or after them.
    pub trait FusedOps<T: Float>: Execute<LinearSwiglu<T>>, Execute<LinearAdd<T>>, Execute<RmsNormLinear<T>>, Execute<RmsNormLinearSwiglu<T>>;
    methods FusedMethods;
}

/// The methods of [`FusedOps`].
pub trait FusedMethods: Backend {
    methods! {
        FusedOps<T: Float>;
        /// [`LinearSwiglu`]: `silu(x · gateᵀ) · (x · upᵀ)`.
        example
        /// let x = b.tensor(&[1, 2], &[1.0f32, 2.0])?;
        /// let (gate, up) = (b.tensor(&[1, 2], &[0.0f32, 50.0])?, b.tensor(&[1, 2], &[3.0f32, 4.0])?);
        /// // silu(100) is 100, and the other product 11.
        /// assert_eq!(b.linear_swiglu(&x, &gate, &up)?.to_vec(&b)?, [1100.0]);
        fn linear_swiglu, linear_swiglu_into(
            x: in T, gate: in any, up: in any; y: T
        ) = linear_swiglu(LinearSwiglu::OP);

        /// [`LinearAdd`]: `x · weightᵀ + residual`.
        example
        /// let x = b.tensor(&[1, 2], &[1.0f32, 2.0])?;
        /// let (weight, residual) = (b.tensor(&[1, 2], &[3.0f32, 4.0])?, b.tensor(&[1, 1], &[0.5f32])?);
        /// assert_eq!(b.linear_add(&x, &weight, &residual)?.to_vec(&b)?, [11.5]);
        fn linear_add, linear_add_into(
            x: in T, weight: in any, residual: in T; y: T
        ) = linear_add(LinearAdd::OP);

        /// [`RmsNormLinear`]: `rms_norm(x) · weightᵀ + bias`.
        example
        /// let x = b.tensor(&[1, 2], &[1.0f32, 7.0])?;
        /// let norm = b.tensor(&[2], &[1.0f32, 2.0])?;
        /// let weight = b.tensor(&[1, 2], &[10.0f32, 1.0])?;
        /// // The root of the mean square of 1 and 7 is 5, so the normed row is [0.2, 2.8].
        /// let y = b.rms_norm_linear(&x, &norm, &weight, None, 0.0)?.to_vec(&b)?;
        /// assert!((y[0] - 4.8).abs() < 1e-5);
        fn rms_norm_linear, rms_norm_linear_into(
            x: in T, norm: in any, weight: in any, bias: opt any; y: T; op: impl Into<RmsNormLinear<T>>
        ) = rms_norm_linear(op.into());

        /// [`RmsNormLinearSwiglu`]: [`linear_swiglu`](Self::linear_swiglu) of `rms_norm(x)`.
        example
        /// let x = b.tensor(&[1, 2], &[1.0f32, 7.0])?;
        /// let norm = b.tensor(&[2], &[1.0f32, 2.0])?;
        /// let (gate, up) = (b.tensor(&[1, 2], &[500.0f32, 0.0])?, b.tensor(&[1, 2], &[10.0f32, 1.0])?);
        /// // The normed row is [0.2, 2.8]; silu(100) is 100, and the other product 4.8.
        /// let y = b.rms_norm_linear_swiglu(&x, &norm, &gate, &up, 0.0)?.to_vec(&b)?;
        /// assert!((y[0] - 480.0).abs() < 1e-3);
        fn rms_norm_linear_swiglu, rms_norm_linear_swiglu_into(
            x: in T, norm: in any, gate: in any, up: in any; y: T; op: impl Into<RmsNormLinearSwiglu<T>>
        ) = rms_norm_linear_swiglu(op.into());
    }
    /// Whether the backend has fused kernels for [`LinearSwiglu`] of these operands. If not, call the parts in `T`:
    /// they are at least as fast, but round after each part.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let (x, weight) = (b.zeros::<f32>(&[1, 2])?, b.zeros::<f32>(&[1, 2])?);
    /// assert!(!b.fuses_linear_swiglu(&x, &weight, &weight));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn fuses_linear_swiglu<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        gate: impl AsAny<Self::Space>,
        up: impl AsAny<Self::Space>,
    ) -> bool
    where
        Self: FusedOps<T>,
    {
        let (x, gate, up) = (x.view().any(), gate.any_view(), up.any_view());
        let operands = [x.operand("x"), gate.operand("gate"), up.operand("up")].map(Some);
        fuses::<T, _, _, _>(self, &LinearSwiglu::<T>::OP, operands, gate.operand("gate"))
    }
    /// The same for [`LinearAdd`].
    fn fuses_linear_add<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        residual: impl AsView<Self::Space, T>,
    ) -> bool
    where
        Self: FusedOps<T>,
    {
        let (x, weight, residual) = (x.view().any(), weight.any_view(), residual.view().any());
        let operands = [x.operand("x"), weight.operand("weight"), residual.operand("residual")].map(Some);
        fuses::<T, _, _, _>(self, &LinearAdd::<T>::OP, operands, weight.operand("weight"))
    }
    /// The same for [`RmsNormLinear`].
    fn fuses_rms_norm_linear<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        norm: impl AsAny<Self::Space>,
        weight: impl AsAny<Self::Space>,
        bias: impl AsOptional<Self::Space>,
        op: impl Into<RmsNormLinear<T>>,
    ) -> bool
    where
        Self: FusedOps<T>,
    {
        let (x, norm, weight) = (x.view().any(), norm.any_view(), weight.any_view());
        let bias = bias.optional_view();
        let operands = [
            Some(x.operand("x")),
            Some(norm.operand("norm")),
            Some(weight.operand("weight")),
            bias.as_ref().map(|bias| bias.operand("bias")),
        ];
        fuses::<T, _, _, _>(self, &op.into(), operands, weight.operand("weight"))
    }
    /// The same for [`RmsNormLinearSwiglu`].
    fn fuses_rms_norm_linear_swiglu<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        norm: impl AsAny<Self::Space>,
        gate: impl AsAny<Self::Space>,
        up: impl AsAny<Self::Space>,
        op: impl Into<RmsNormLinearSwiglu<T>>,
    ) -> bool
    where
        Self: FusedOps<T>,
    {
        let (x, norm, gate, up) = (x.view().any(), norm.any_view(), gate.any_view(), up.any_view());
        let operands =
            [x.operand("x"), norm.operand("norm"), gate.operand("gate"), up.operand("up")].map(Some);
        fuses::<T, _, _, _>(self, &op.into(), operands, gate.operand("gate"))
    }
}

/// Whether `backend` has fused kernels for `op` on these operands and an output as the product with `weight` has it.
fn fuses<T: Float, O: Op, B: Execute<O>, const N: usize>(
    backend: &B,
    op: &O,
    operands: [Option<Operand<'_>>; N],
    weight: Operand<'_>,
) -> bool {
    let n = weight.dims().first().copied().unwrap_or(0);
    let Some(Ok(shape)) = operands[0].map(|x| x.layout.shape().with_last(n)) else { return false };
    let y = Layout::of(shape);
    let y = made("y", Role::Out, T::DTYPE, &y);
    backend.fuses(op, &Planned { read: &operands, written: &[y] })
}
