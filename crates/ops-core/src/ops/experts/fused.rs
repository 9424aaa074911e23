//! Products of experts fused with the step after them.
use super::{LinearExpertsCombine, LinearExpertsSwiglu, args, products};
use crate::ops::extents;
use crate::ops::matmul::{of_gated, summed_with};
use crate::ops::routing::own_or_f32;
use crate::parts::{Planned, made};
use crate::{DType, Error, Execute, Float, Layout, Op, Operand, Operands, Result, Role, Shape, Tolerance};

impl<T> LinearExpertsSwiglu<T> {
    /// Clamps gates and ups.
    pub fn clamped(self, alpha: f64, limit: f64) -> Self {
        LinearExpertsSwiglu { alpha, limit: Some(limit), ..self }
    }
}
impl<T: Float> Op for LinearExpertsSwiglu<T> {
    fn infer(&self, on: &args::linear_experts_swiglu::Shapes<'_>) -> Result<[Shape; 1]> {
        let name = self.name();
        let y = products(name, on.x, on.gate, on.ids)?;
        on.up.require(name, DType::is_real, "f16, bf16, f32, f64 or a block format")?;
        let (dims, d) = (on.gate.dims(), on.gate.last_values()?);
        if on.up.dims().len() != 3 || on.up.dims()[..2] != dims[..2] || on.up.last_values()? != d {
            let want = format!("[{}, {}, d] with d = {d} values, as in `gate`", dims[0], dims[1]);
            return Err(Error::shape(name, "up", on.up.layout, want));
        }
        own_or_f32::<T::Acc>(name, on.gate_bias, &dims[..2])?;
        own_or_f32::<T::Acc>(name, on.up_bias, &dims[..2])?;
        Ok([y])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        of_gated(dtype, on)
    }
}
impl<T: Float> Op for LinearExpertsCombine<T> {
    fn infer(&self, on: &args::linear_experts_combine::Shapes<'_>) -> Result<[Shape; 1]> {
        let name = self.name();
        let y = combined(name, on.x, on.weight, on.ids)?;
        own_or_f32::<T::Acc>(name, on.bias, &on.weight.dims()[..2])?;
        extents(name, "weights", on.weights, on.ids.dims())?;
        Ok([y])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        summed_with(on.get("weight"), dtype)
    }
}

/// The shape `[n, o]` of the sums of the products of `x[n, k, d]`.
pub(super) fn combined(
    name: &'static str,
    x: &Layout,
    weight: Operand<'_>,
    ids: Operand<'_>,
) -> Result<Shape> {
    let y = products(name, x, weight, ids)?;
    let &[n, k, o] = y.dims() else { return Ok(y) };
    if x.dims()[1] != k {
        return Err(Error::shape(name, "x", x, format!("[{n}, {k}, {}]", x.dims()[2])));
    }
    Shape::new(&[n, o])
}

/// Whether `backend` has fused kernels for `op` on these operands and an output of this shape.
pub(super) fn fuses<T: Float, O: Op, B: Execute<O>>(
    backend: &B,
    op: &O,
    read: &[Option<Operand<'_>>],
    y: Result<Shape>,
) -> bool {
    let Ok(shape) = y else { return false };
    let y = Layout::of(shape);
    backend.fuses(op, &Planned { read, written: &[made("y", Role::Out, T::DTYPE, &y)] })
}
