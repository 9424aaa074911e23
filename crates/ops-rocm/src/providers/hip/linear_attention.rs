//! Linear attention.
use super::{Bound, HipOp, Problem};
use ops_core::Float;
use ops_core::ops::{Conv1dUpdate, ConvActivation, GatedDeltaRule};
use ops_kernels::{Plan, Refused, linear_attention};

impl<T: Float> HipOp for Conv1dUpdate<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, weight) = (p.at(0), p.at(1));
        let (&[b, t, c], &[_, w]) = (x.dims(), weight.dims()) else {
            return Err(Refused::Rank(x.layout.rank()));
        };
        let call = linear_attention::Conv1dUpdate {
            dims: [b, t, c, w],
            x: x.view(),
            weight: weight.view(),
            bias: p.get(2).map(Bound::view),
            state: p.at(3).view(),
            y: p.at(4).view(),
            silu: self.activation == ConvActivation::Silu,
        };
        plan.add(linear_attention::conv1d_update(&call, p.device())?)
    }
}

impl<T: Float> HipOp for GatedDeltaRule<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (q, v) = (p.at(0), p.at(2));
        let (&[b, t, h, d], &[.., dv]) = (q.dims(), v.dims()) else {
            return Err(Refused::Rank(q.layout.rank()));
        };
        let call = linear_attention::GatedDelta {
            dims: [b, t, h, d, dv],
            q: q.view(),
            k: p.at(1).view(),
            v: v.view(),
            decay: p.at(3).view(),
            beta: p.at(4).view(),
            state: p.at(5).view(),
            o: p.at(6).view(),
            scale: self.scale_for(q.layout.last()),
        };
        plan.add(linear_attention::gated_delta_rule(&call, p.device())?)
    }
}
