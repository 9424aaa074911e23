//! `x · mul + add`.
use super::bind::Bound;
use super::{HipOp, Problem};
use ops_core::ops::{Affine, AffineInplace};
use ops_core::{Layout, Num};
use ops_kernels::cast::{self, CastArgs};
use ops_kernels::unary::{self, AffineArgs};
use ops_kernels::{ElementType, Plan, Refused};
use std::mem::offset_of;

impl<T: Num> HipOp for Affine<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        affine(p.at(0), p.at(1), (self.mul, self.add), p, plan)
    }
}

impl<T: Num> HipOp for AffineInplace<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        affine(p.at(0), p.at(0), (self.mul, self.add), p, plan)
    }
}

/// Integers go through f64, in the workspace.
fn affine(
    x: &Bound,
    y: &Bound,
    (mul, add): (f64, f64),
    p: &Problem<'_>,
    plan: &mut Plan,
) -> Result<(), Refused> {
    if ElementType::FLOATS.contains(&x.dtype) {
        return plan.add(unary::affine(x.dims(), x.view(), y.view(), (mul, add), p.device())?);
    }
    plan.workspace = (x.layout.len() as u64).saturating_mul(8);
    let wide = Bound::new(0, ElementType::F64, &Layout::of(x.layout.shape()));
    let (widen, args) = cast::prepare(x.dims(), x.view(), wide.view(), p.device())?;
    plan.add_with(widen, &args, &[offset_of!(CastArgs, y.data)])?;
    // The kernel rounds once, but the op rounds integers' products and then their sums, each to f64.
    for factors in [(mul, 0.0), (1.0, add)] {
        let (launch, args) = unary::affine(x.dims(), wide.view(), wide.view(), factors, p.device())?;
        plan.add_with(launch, &args, &[offset_of!(AffineArgs, x.data), offset_of!(AffineArgs, y.data)])?;
    }
    let (narrow, args) = cast::prepare(x.dims(), wide.view(), y.view(), p.device())?;
    plan.add_with(narrow, &args, &[offset_of!(CastArgs, x.data)])
}
