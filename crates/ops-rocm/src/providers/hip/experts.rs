//! Products of tokens with the weights of their experts. Many rows are sorted by expert on the device.
use super::bind::Bound;
use super::{HipOp, Indices, Problem, no_matrix, units};
use crate::choice::Target;
use ops_core::ops::LinearExperts;
use ops_core::{Determinism, Float, Operands};
use ops_kernels::{Plan, Refused, experts};

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
        let experts = weight.dims().first().copied().unwrap_or(0);
        let on = experts::Experts {
            x: x.view(),
            weight: weight.view(),
            ids: ids.view(),
            bias: bias.map(Bound::view),
            y: y.view(),
        };
        experts::prepare([n, k, o], [m, d], experts, &on, p.report(), p.device(), plan)
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
