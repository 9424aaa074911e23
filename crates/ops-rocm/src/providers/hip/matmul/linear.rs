//! Products with a weight of floats or of blocks; with memory for activations that are rounded to bytes.
use super::super::{Bound, HipOp, Problem};
use super::{linear, linear_swiglu};
use crate::choice::Target;
use ops_core::ops::{Linear, LinearSwiglu};
use ops_core::{Determinism, Float, Operands};
use ops_kernels::{ElementType, Plan, Refused, qlinear};

fn has_blocks(weight: &Bound) -> bool {
    ElementType::BLOCKS.contains(&weight.dtype)
}

impl<T: Float> HipOp for Linear<T> {
    fn rows_level(&self, target: &Target, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, weight, y) = (p.at(0), p.at(1), p.at(3));
        if !has_blocks(weight) {
            return plan.add(linear(p)?);
        }
        if p.get(2).is_some() {
            return Err(Refused::Because("no kernel adds a bias to a product with blocks".into()));
        }
        let n = weight.dims().first().copied().unwrap_or(0);
        qlinear::prepare(x.dims(), n, [x.view(), weight.view(), y.view()], p.device(), plan)
    }
}

/// Few rows.
impl<T: Float> HipOp for LinearSwiglu<T> {
    /// More rows than this kernel supports are computed as parts, which sum in another order.
    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, gate, up, y) = (p.at(0), p.at(1), p.at(2), p.at(3));
        if !has_blocks(gate) {
            return plan.add(linear_swiglu(p)?);
        }
        let n = gate.dims().first().copied().unwrap_or(0);
        let views = [x.view(), gate.view(), up.view(), y.view()];
        qlinear::swiglu(x.dims(), n, views, p.device(), plan)
    }

    fn how(&self, _: &Target, _: &Plan) -> Option<String> {
        None
    }
}
