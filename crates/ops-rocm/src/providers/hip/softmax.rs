//! Softmax along any axis.
use super::{HipOp, Problem};
use crate::choice::Target;
use ops_core::ops::Softmax;
use ops_core::{Determinism, Float, Op, Operand, Operands};
use ops_kernels::{Plan, Refused, softmax};

impl<T: Float> HipOp for Softmax<T> {
    /// There is a separate kernel for many rows whose elements are neighbours, unless rows must not depend on
    /// each other.
    fn rows_level(&self, target: &Target, on: &dyn Operands) -> Determinism {
        let contiguous =
            |x: Operand<'_>| Some(x.layout.strides()[x.layout.shape().axis(self.axis).ok()?] == 1);
        if on.get("x").and_then(contiguous) == Some(true) { Determinism::Batch } else { target.sums_level() }
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        let rank = x.layout.rank();
        let axis = x.layout.shape().axis(self.axis).map_err(|_| Refused::Rank(rank))?;
        plan.add(softmax::prepare(self.name(), x.dims(), axis, x.view(), y.view(), p.device())?)
    }
}
