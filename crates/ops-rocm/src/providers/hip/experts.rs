//! Products of tokens with the weights of their experts. Many rows are sorted by expert on the device.
use super::bind::Bound;
use super::{HipOp, Indices, Problem, no_matrix, units};
use crate::choice::Target;
use ops_core::ops::{LinearExperts, LinearExpertsCombine, LinearExpertsSwiglu};
use ops_core::{Determinism, Float, Operands};
use ops_kernels::{OperandView, Plan, Refused, experts};

impl<T: Float> HipOp for LinearExperts<T> {
    const INDICES: Indices = &[("ids", 2)];

    fn rows_level(&self, target: &Target, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, weight, ids, bias, y) = (p.at(0), p.at(1), p.at(2), p.get(3), p.at(4));
        let (&[_, m, d], &[n, k, o]) = (x.dims(), y.dims()) else {
            return Err(Refused::Rank(x.layout.rank()));
        };
        let on = experts::Experts {
            x: x.view(),
            weight: weight.view(),
            ids: ids.view(),
            bias: bias.map(Bound::view),
            y: y.view(),
        };
        experts::prepare([n, k, o], [m, d], count(weight), &on, p.report(), p.device(), plan)
    }

    fn how(&self, target: &Target, plan: &Plan) -> Option<String> {
        let main = plan.main()?.instance;
        let limit = "with few rows per expert, memory bandwidth is the limit";
        if main.family.needs_dot4() {
            return units(target, main).map(|units| format!("row by row, {units}: {limit}"));
        }
        if plan.steps().len() == 1 {
            return Some(format!("row by row: {limit}"));
        }
        let on_vectors =
            || no_matrix(target).unwrap_or_else(|| "matrix units do not support these types".into());
        let how = units(target, main).unwrap_or_else(|| format!("on vector units: {}", on_vectors()));
        Some(format!("rows sorted by expert, {how}"))
    }
}

/// These kernels take few tokens. Calls with more run as parts, which sum in another order.
const FUSED: Determinism = Determinism::Run;

impl<T: Float> HipOp for LinearExpertsSwiglu<T> {
    const INDICES: Indices = &[("ids", 3)];

    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        FUSED
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, gate, up, y) = (p.at(0), p.at(1), p.at(2), p.at(6));
        let (&[_, m, d], &[n, k, o]) = (x.dims(), y.dims()) else {
            return Err(Refused::Rank(x.layout.rank()));
        };
        let bias = p.get(4).map(Bound::view);
        let on =
            experts::Experts { x: x.view(), weight: gate.view(), ids: p.at(3).view(), bias, y: y.view() };
        let unit = experts::fused::Unit {
            up: up.view(),
            up_bias: p.get(5).map(Bound::view),
            alpha: self.alpha,
            limit: self.limit,
        };
        experts::fused::swiglu([n, k, o], [m, d, count(gate)], &on, unit, p.report(), p.device(), plan)
    }

    fn how(&self, _: &Target, _: &Plan) -> Option<String> {
        None
    }
}

impl<T: Float> HipOp for LinearExpertsCombine<T> {
    const INDICES: Indices = &[("ids", 2)];

    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        FUSED
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, weight, weights, y) = (p.at(0), p.at(1), p.at(4), p.at(5));
        let (&[n, k, d], &[_, o], &[y0, y1]) = (x.dims(), y.dims(), y.view().strides) else {
            return Err(Refused::Rank(x.layout.rank()));
        };
        let strides = [y0, 0, y1];
        let y = OperandView { strides: &strides, ..y.view() };
        let bias = p.get(3).map(Bound::view);
        let on = experts::Experts { x: x.view(), weight: weight.view(), ids: p.at(2).view(), bias, y };
        let weights = weights.view();
        experts::fused::combine([n, k, o], [d, count(weight)], &on, weights, p.report(), p.device(), plan)
    }

    fn how(&self, _: &Target, _: &Plan) -> Option<String> {
        None
    }
}

/// The number of matrices.
fn count(weight: &Bound) -> u64 {
    weight.dims().first().copied().unwrap_or(0)
}
