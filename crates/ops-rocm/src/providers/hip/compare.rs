//! Comparisons and truth values.
use super::{HipOp, Problem};
use ops_core::ops::{Compare, LogicalNot};
use ops_core::{Op, Scalar};
use ops_kernels::{Plan, Refused, compare};

impl<T: Scalar> HipOp for LogicalNot<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        plan.add(compare::prepare(self.name(), y.dims(), [x.view(), x.view(), y.view()], p.device())?)
    }
}

impl<T: Scalar> HipOp for Compare<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let y = p.at(2);
        plan.add(compare::prepare(
            self.name(),
            y.dims(),
            [p.at(0).view(), p.at(1).view(), y.view()],
            p.device(),
        )?)
    }
}
