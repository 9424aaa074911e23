//! Batch normalisation with given statistics.
use super::{Bound, HipOp, Problem};
use ops_core::Float;
use ops_core::ops::BatchNorm;
use ops_kernels::{Plan, Refused, batch_norm};

impl<T: Float> HipOp for BatchNorm<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let given = |place| p.get(place).map(Bound::view);
        let on = batch_norm::BatchNorm {
            x: p.at(0).view(),
            y: p.at(5).view(),
            weight: given(1),
            bias: given(2),
            mean: p.at(3).view(),
            var: p.at(4).view(),
            eps: self.eps,
        };
        plan.add(batch_norm::prepare(p.at(0).dims(), &on, p.device())?)
    }
}
