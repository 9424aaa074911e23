//! Choices between two tensors, element by element.
use super::{Bound, HipOp, Problem};
use ops_core::ops::Where;
use ops_kernels::{ElementType, OperandView, Plan, Refused, copy};

impl HipOp for Where {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (cond, moved) = (p.at(0), [p.at(1), p.at(2), p.at(3)]);
        if p.at(3).dtype.bits().is_some() {
            return plan.add(copy::select(cond.dims(), cond.view(), moved.map(Bound::view), p.device())?);
        }
        // A block is a row of units that share a condition. Units have two bytes, or one if the block's size is odd.
        let bytes = p.at(3).dtype.bytes();
        let unit = if bytes.is_multiple_of(2) { ElementType::B16 } else { ElementType::B8 };
        let units = (bytes / unit.bytes()) as u64;
        let dims = [cond.dims(), &[units]].concat();
        let cond_strides = [cond.view().strides, &[0]].concat();
        let strides = moved.map(|operand| in_units(operand, units));
        let mut views = strides.iter().zip(moved).map(|(strides, operand)| OperandView {
            data: operand.address,
            strides,
            dtype: unit,
        });
        let mut next = || views.next().ok_or(Refused::Rank(dims.len()));
        let views = [next()?, next()?, next()?];
        plan.add(copy::select(
            &dims,
            OperandView { strides: &cond_strides, ..cond.view() },
            views,
            p.device(),
        )?)
    }
}

/// Strides of blocks converted to strides of their units, with the axis of units last.
fn in_units(operand: &Bound, units: u64) -> Vec<i64> {
    let outer = operand.view().strides.iter().map(|stride| stride * units as i64);
    outer.chain([1]).collect()
}
