//! Running sums and products along any axis. With few rows, rows are split, with memory for the parts' results.
use super::{HipOp, Problem};
use crate::choice::Target;
use ops_core::ops::Scan;
use ops_core::{Determinism, Num, Op, Operands};
use ops_kernels::{Plan, Refused, scan};

impl<T: Num> HipOp for Scan<T> {
    fn rows_level(&self, target: &Target, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let along = |place| p.at(place).along(self.axis);
        let (x, y) = (along(0)?, along(1)?);
        scan::prepare(self.name(), x.dims(), x.view(), y.view(), p.device(), plan)
    }
}
