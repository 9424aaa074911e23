//! Functions of one and of two elements.
use super::{HipOp, Problem};
use ops_core::ops::{Binary, Unary};
use ops_core::{Num, Op};
use ops_kernels::{Launch, Plan, Refused, binary, unary};

impl<T: Num> HipOp for Unary<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        plan.add(unary::prepare(self.name(), x.dims(), x.view(), y.view(), p.device())?)
    }
}

impl<T: Num> HipOp for Binary<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        plan.add(plan_binary(self.name(), p)?)
    }
}

pub(super) fn plan_binary(op: &str, p: &Problem<'_>) -> Result<(Launch, binary::BinaryArgs), Refused> {
    let y = p.at(2);
    binary::prepare(op, y.dims(), [p.at(0).view(), p.at(1).view(), y.view()], p.device())
}
