//! Routing of tokens to experts, and the sums of their results.
use super::bind::Bound;
use super::{HipOp, Problem};
use ops_core::Float;
use ops_core::ops::{CombineExperts, GroupScore, RouterTopK, Scoring, ScoringOrder};
use ops_kernels::{Plan, Refused, routing};

impl<T: Float> HipOp for RouterTopK<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (logits, bias, weights, ids) = (p.at(0), p.get(1), p.at(2), p.at(3));
        let &[rows, experts] = logits.dims() else { return Err(Refused::Rank(logits.layout.rank())) };
        let on = routing::Router {
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
        plan.add(routing::topk([rows, experts, self.k as u64], &on, p.device())?)
    }
}

impl<T: Float> HipOp for CombineExperts<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, weights, y) = (p.at(0), p.at(1), p.at(2));
        let &[n, k, d] = x.dims() else { return Err(Refused::Rank(x.layout.rank())) };
        plan.add(routing::combine([n, k, d], [x.view(), weights.view(), y.view()], p.device())?)
    }
}
