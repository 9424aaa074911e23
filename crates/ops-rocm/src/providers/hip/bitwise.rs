//! Bitwise functions of integers.
use super::{HipOp, Problem};
use ops_core::ops::{Bitwise, BitwiseNot};
use ops_core::{Integer, Op};
use ops_kernels::{Plan, Refused, bitwise};

impl<T: Integer> HipOp for Bitwise<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (a, b, y) = (p.at(0), p.at(1), p.at(2));
        plan.add(bitwise::prepare(self.name(), y.dims(), [a.view(), b.view(), y.view()], p.device())?)
    }
}

impl<T: Integer> HipOp for BitwiseNot<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        plan.add(bitwise::not(x.dims(), [x.view(), y.view()], p.device())?)
    }
}
