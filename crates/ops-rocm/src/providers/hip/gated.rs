//! Gated activations and norms.
use super::{HipOp, Problem};
use ops_core::Float;
use ops_core::ops::{GatedRmsNorm, L2Norm, SwigluClamped};
use ops_kernels::{Plan, Refused, gated};

impl<T: Float> HipOp for L2Norm<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        plan.add(gated::l2(x.dims(), [x.view(), y.view()], self.eps, p.device())?)
    }
}

impl<T: Float> HipOp for GatedRmsNorm<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, gate, weight, y) = (p.at(0), p.at(1), p.at(2), p.at(3));
        plan.add(gated::rms(
            x.dims(),
            [x.view(), gate.view(), y.view()],
            weight.view(),
            self.eps,
            p.device(),
        )?)
    }
}

impl<T: Float> HipOp for SwigluClamped<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (gate, up, y) = (p.at(0), p.at(1), p.at(2));
        let views = [gate.view(), up.view(), y.view()];
        plan.add(gated::clamped(gate.dims(), views, [self.alpha, self.limit], p.device())?)
    }
}
