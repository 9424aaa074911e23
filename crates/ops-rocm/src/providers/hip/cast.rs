//! Conversions between element types.
use super::{HipOp, Problem};
use ops_core::Scalar;
use ops_core::ops::Cast;
use ops_kernels::{Plan, Refused, cast};

impl<T: Scalar> HipOp for Cast<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        plan.add(cast::prepare(x.dims(), x.view(), y.view(), p.device())?)
    }
}
