//! Comparisons.
use super::{HipOp, Problem};
use ops_core::ops::Compare;
use ops_core::{Op, Scalar};
use ops_kernels::{Launch, Refused, compare};

impl<T: Scalar> HipOp for Compare<T> {
    type Kernel = compare::CompareArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let y = p.at(2);
        compare::prepare(self.name(), y.dims(), [p.at(0).view(), p.at(1).view(), y.view()], p.device())
    }
}
