//! Rotary position embedding after a norm of the heads.
use super::rope::Tables;
use super::{HipOp, Problem};
use ops_core::Float;
use ops_core::ops::{QkNormRope, RopeOrder};
use ops_kernels::qk_norm_rope::{self, QkNormRopeArgs};
use ops_kernels::{Launch, Refused};

impl<T: Float> HipOp for QkNormRope<T> {
    type Kernel = QkNormRopeArgs;
    const INDICES: Option<&'static str> = Some("positions");

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
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
        qk_norm_rope::prepare(x.dims(), &call, p.device())
    }
}
