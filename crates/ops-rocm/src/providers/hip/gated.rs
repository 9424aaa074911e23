//! Gated activations and norms.
use super::{HipOp, Problem};
use ops_core::Float;
use ops_core::ops::{GatedRmsNorm, L2Norm, SwigluClamped};
use ops_kernels::{Launch, Refused, gated};

impl<T: Float> HipOp for L2Norm<T> {
    type Kernel = gated::GatedArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        gated::l2(x.dims(), [x.view(), y.view()], self.eps, p.device())
    }
}

impl<T: Float> HipOp for GatedRmsNorm<T> {
    type Kernel = gated::GatedArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, gate, weight, y) = (p.at(0), p.at(1), p.at(2), p.at(3));
        gated::rms(x.dims(), [x.view(), gate.view(), y.view()], weight.view(), self.eps, p.device())
    }
}

impl<T: Float> HipOp for SwigluClamped<T> {
    type Kernel = gated::ClampedArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (gate, up, y) = (p.at(0), p.at(1), p.at(2));
        let views = [gate.view(), up.view(), y.view()];
        gated::clamped(gate.dims(), views, [self.alpha, self.limit], p.device())
    }
}
