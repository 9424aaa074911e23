//! Routing of tokens to experts, their products and sums, gated activations and norms.
use super::bind::Bound;
use super::{HipOp, Problem};
use ops_core::Float;
use ops_core::ops::{
    CombineExperts, GatedRmsNorm, GroupScore, L2Norm, LinearExperts, RouterTopK, Scoring, ScoringOrder,
    SwigluClamped,
};
use ops_kernels::{Launch, Refused, experts, gated, router};

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

impl<T: Float> HipOp for RouterTopK<T> {
    type Kernel = router::RouterArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (logits, bias, weights, ids) = (p.at(0), p.get(1), p.at(2), p.at(3));
        let &[rows, experts] = logits.dims() else { return Err(Refused::Rank(logits.layout.rank())) };
        let on = router::Router {
            logits: logits.view(),
            bias: bias.map(Bound::view),
            weights: weights.view(),
            ids: ids.view(),
            sigmoid: self.scoring == Scoring::Sigmoid,
            after: self.order == ScoringOrder::After,
            renormalize: self.renormalize,
            max: self.group_score == GroupScore::Max,
            groups: self.groups as u64,
            kept: self.groups_kept as u64,
            scale: self.scale,
        };
        router::topk([rows, experts, self.k as u64], &on, p.device())
    }
}

impl<T: Float> HipOp for CombineExperts<T> {
    type Kernel = router::CombineArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, weights, y) = (p.at(0), p.at(1), p.at(2));
        let &[n, k, d] = x.dims() else { return Err(Refused::Rank(x.layout.rank())) };
        router::combine([n, k, d], [x.view(), weights.view(), y.view()], p.device())
    }
}

impl<T: Float> HipOp for LinearExperts<T> {
    type Kernel = experts::ExpertsArgs;
    const INDICES: Option<&'static str> = Some("ids");

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, weight, ids, bias, y) = (p.at(0), p.at(1), p.at(2), p.get(3), p.at(4));
        let (&[_, m, d], &[n, k, o]) = (x.dims(), y.dims()) else {
            return Err(Refused::Rank(x.layout.rank()));
        };
        let experts = weight.dims().first().copied().unwrap_or(0);
        let on = experts::Experts {
            x: x.view(),
            weight: weight.view(),
            ids: ids.view(),
            bias: bias.map(Bound::view),
            y: y.view(),
        };
        experts::prepare([n, k, o], [m, d], experts, &on, p.report(), p.device())
    }
}
