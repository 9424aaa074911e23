//! Products with a weight of floats or of blocks; with memory for activations that are rounded to bytes.
use super::super::{Bound, HipOp, Problem};
use super::{bias_of, linear, linear_swiglu, of_weight};
use crate::choice::Target;
use ops_core::ops::{Linear, LinearAdd, LinearSwiglu, RmsNormLinear, RmsNormLinearSwiglu};
use ops_core::{Determinism, Float, Op, Operands};
use ops_kernels::matmul::{self, Beside, Matmul};
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

/// Few rows. More rows than these kernels support are computed as parts, which sum in another order.
const FUSED: Determinism = Determinism::Run;

impl<T: Float> HipOp for LinearSwiglu<T> {
    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        FUSED
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        gated([0, 1, 2, 3].map(|place| p.at(place)), Beside::default(), p, plan)
    }

    fn how(&self, _: &Target, _: &Plan) -> Option<String> {
        None
    }
}

impl<T: Float> HipOp for RmsNormLinearSwiglu<T> {
    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        FUSED
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let norm = Some((p.at(1).view(), self.eps));
        gated([0, 2, 3, 4].map(|place| p.at(place)), Beside { norm, added: None }, p, plan)
    }

    fn how(&self, _: &Target, _: &Plan) -> Option<String> {
        None
    }
}

impl<T: Float> HipOp for LinearAdd<T> {
    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        FUSED
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, weight, residual, y) = (p.at(0), p.at(1), p.at(2), p.at(3));
        if has_blocks(weight) {
            let beside = Beside { norm: None, added: Some(residual.view()) };
            return of_blocks(self.name(), [x, weight, y], beside, p, plan);
        }
        let (residual, _) = residual.folded_with(residual);
        let beside = Beside { norm: None, added: Some(residual.view()) };
        plan.add(of_weight((x, weight, y), |call| matmul::fused(call, beside, p.device()))?)
    }
}

impl<T: Float> HipOp for RmsNormLinear<T> {
    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        FUSED
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, weight, y) = (p.at(0), p.at(2), p.at(4));
        let norm = Some((p.at(1).view(), self.eps));
        let bias = p.get(3).map(|bias| bias_of(x, bias)).transpose()?;
        if !has_blocks(weight) {
            let beside = Beside { norm, added: None };
            return plan.add(of_weight((x, weight, y), |call| {
                matmul::fused(&Matmul { bias, ..*call }, beside, p.device())
            })?);
        }
        // The same for all rows.
        let spread = p.get(3).map(|bias| bias.layout.broadcast(y.layout.dims()).map(|of| bias.relaid(&of)));
        let spread = spread.transpose().map_err(|_| Refused::Rank(y.layout.rank()))?;
        let added = spread.as_ref().map(Bound::view);
        of_blocks(self.name(), [x, weight, y], Beside { norm, added }, p, plan)
    }
}

/// Both weights of a gated unit, of floats or blocks.
fn gated(
    [x, gate, up, y]: [&Bound; 4],
    beside: Beside<'_>,
    p: &Problem<'_>,
    plan: &mut Plan,
) -> Result<(), Refused> {
    if !has_blocks(gate) {
        return plan.add(linear_swiglu([x, gate, up, y], beside, p.device())?);
    }
    let n = gate.dims().first().copied().unwrap_or(0);
    let views = [x, gate, up, y].map(Bound::view);
    qlinear::swiglu(x.dims(), n, views, beside, p.device(), plan)
}

/// A product with a weight of blocks that has more to do than multiply.
fn of_blocks(
    op: &'static str,
    [x, weight, y]: [&Bound; 3],
    beside: Beside<'_>,
    p: &Problem<'_>,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let n = weight.dims().first().copied().unwrap_or(0);
    qlinear::fused(op, x.dims(), n, [x, weight, y].map(Bound::view), beside, p.device(), plan)
}
