//! Batch normalisation with given statistics.
use super::{Bound, HipOp, Problem};
use ops_core::Float;
use ops_core::ops::BatchNorm;
use ops_kernels::{Launch, Refused, batch_norm};

impl<T: Float> HipOp for BatchNorm<T> {
    type Kernel = batch_norm::BatchNormArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
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
        batch_norm::prepare(p.at(0).dims(), &on, p.device())
    }
}
