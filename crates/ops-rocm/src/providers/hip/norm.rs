//! Norms over rows, and over groups of channels; few groups are split, with memory for the parts' results.
use super::{Bound, HipOp, Problem};
use crate::choice::Target;
use ops_core::ops::{AddRmsNorm, GroupNorm, LayerNorm, RmsNorm};
use ops_core::{Determinism, Float, Op, Operands};
use ops_kernels::{Plan, Refused, norm};

/// Indices of a norm's operands; those that the op lacks are past the end.
struct Places {
    weight: usize,
    bias: usize,
    residual: usize,
    y: usize,
    sum: usize,
}
const NONE: usize = super::MAX_OPERANDS;

fn operands<'p>(p: &'p Problem<'_>, at: &Places, eps: f64) -> norm::Norm<'p> {
    let view = |place: usize| p.get(place).map(Bound::view);
    norm::Norm {
        x: p.at(0).view(),
        y: p.at(at.y).view(),
        weight: view(at.weight),
        bias: view(at.bias),
        residual: view(at.residual),
        sum: view(at.sum),
        eps,
    }
}

impl<T: Float> HipOp for RmsNorm<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let places = Places { weight: 1, bias: NONE, residual: NONE, y: 2, sum: NONE };
        plan.add(norm::prepare(self.name(), p.at(0).dims(), &operands(p, &places, self.eps), p.device())?)
    }
}

impl<T: Float> HipOp for LayerNorm<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let places = Places { weight: 1, bias: 2, residual: NONE, y: 3, sum: NONE };
        plan.add(norm::prepare(self.name(), p.at(0).dims(), &operands(p, &places, self.eps), p.device())?)
    }
}

impl<T: Float> HipOp for AddRmsNorm<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let places = Places { weight: 2, bias: NONE, residual: 1, y: 3, sum: 4 };
        plan.add(norm::prepare(self.name(), p.at(0).dims(), &operands(p, &places, self.eps), p.device())?)
    }
}

impl<T: Float> HipOp for GroupNorm<T> {
    fn rows_level(&self, target: &Target, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let places = Places { weight: 1, bias: 2, residual: NONE, y: 3, sum: NONE };
        let operands = operands(p, &places, self.eps);
        norm::group(p.at(0).dims(), self.num_groups as u64, &operands, p.device(), plan)
    }
}
