//! Softmax along any axis.
use super::{HipOp, Problem};
use ops_core::ops::Softmax;
use ops_core::{Float, Op};
use ops_kernels::{Launch, Refused, softmax};

impl<T: Float> HipOp for Softmax<T> {
    type Kernel = softmax::SoftmaxArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        let rank = x.layout.rank();
        let axis = x.layout.shape().axis(self.axis).map_err(|_| Refused::Rank(rank))?;
        softmax::prepare(self.name(), x.dims(), axis, x.view(), y.view(), p.device())
    }
}
