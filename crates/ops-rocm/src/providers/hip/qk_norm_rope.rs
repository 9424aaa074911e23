//! Rotary position embedding after a norm of the heads.
use super::rope::Tables;
use super::{HipOp, Indices, Problem};
use ops_core::Float;
use ops_core::ops::{QkNormRope, RopeOrder};
use ops_kernels::{Plan, Refused, qk_norm_rope};

impl<T: Float> HipOp for QkNormRope<T> {
    const INDICES: Indices = &[("positions", 4)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y) = (p.at(0), p.at(5));
        let tables = Tables::new([p.at(2), p.at(3)], true, 0, p.get(4))?;
        let call = qk_norm_rope::QkNormRope {
            x: x.view(),
            weight: p.at(1).view(),
            cos: tables.view(0),
            sin: tables.view(1),
            positions: tables.positions(),
            y: y.view(),
            half: tables.half,
            interleaved: self.order == RopeOrder::Interleaved,
            eps: self.eps,
            report: p.report(),
        };
        plan.add(qk_norm_rope::prepare(x.dims(), &call, p.device())?)
    }
}
