//! Gated activations.
use super::elementwise::plan_binary;
use super::{HipOp, Problem};
use ops_core::ops::Glu;
use ops_core::{Float, Op};
use ops_kernels::{Launch, Refused, binary};

impl<T: Float> HipOp for Glu<T> {
    type Kernel = binary::BinaryArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        plan_binary(self.name(), p)
    }
}
