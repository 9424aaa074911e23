//! Softmax along any axis.
use super::{HipOp, Problem, Slots, read, slots, write};
use crate::HipSpace;
use ops_core::ops::{Softmax, SoftmaxArgs};
use ops_core::{Float, Op};
use ops_kernels::{Launch, Refused, softmax};

impl<T: Float> HipOp for Softmax<T> {
    type Kernel = softmax::SoftmaxArgs;

    fn slots<'s>(a: &'s SoftmaxArgs<'_, HipSpace, T>) -> Slots<'s> {
        slots([read(&a.x), write(&a.y)])
    }
    fn plan(&self, p: &Problem) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        let rank = x.layout.rank();
        let axis = x.layout.shape().axis(self.axis).map_err(|_| Refused::Rank(rank))?;
        softmax::prepare(self.name(), x.dims(), axis, x.view(), y.view(), p.device())
    }
}
