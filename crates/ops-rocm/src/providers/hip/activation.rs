//! Gated activations.
use super::elementwise::plan_binary;
use super::{HipOp, Problem};
use ops_core::ops::Glu;
use ops_core::{Float, Op};
use ops_kernels::{Plan, Refused};

impl<T: Float> HipOp for Glu<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        plan.add(plan_binary(self.name(), p)?)
    }
}
