//! Ops that read and write elements by index, with memory for sorted indices if there are few lines.
use super::{Bound, HipOp, Indices, Problem};
use crate::choice::Target;
use ops_core::ops::{Gather, IndexAdd, Scatter, ScatterAdd};
use ops_core::{Determinism, MAX_RANK, Num, Operands};
use ops_kernels::{OperandView, Plan, Refused, scatter};

/// The axis as an index into the operand's dimensions, and the size along it.
fn axis_of(operand: &Bound, axis: isize) -> Result<(usize, u64), Refused> {
    let rank = operand.layout.rank();
    let axis = operand.layout.shape().axis(axis).map_err(|_| Refused::Rank(rank))?;
    Ok((axis, operand.dims().get(axis).copied().unwrap_or(0)))
}

impl HipOp for Gather {
    const INDICES: Indices = &[("ids", 1)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, ids, y) = (p.at(0), p.at(1), p.at(2));
        let (axis, bound) = axis_of(x, self.axis)?;
        plan.add(scatter::gather(
            y.dims(),
            axis,
            bound,
            [x.view(), ids.view(), y.view()],
            p.report(),
            p.device(),
        )?)
    }
}

impl HipOp for Scatter {
    const INDICES: Indices = &[("ids", 1)];

    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        scatter(("scatter", false), self.axis, p, plan)
    }
}

impl<T: Num> HipOp for ScatterAdd<T> {
    const INDICES: Indices = &[("ids", 1)];

    /// How sums are computed depends on the number of lines.
    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        scatter(("scatter_add", false), self.axis, p, plan)
    }
}

impl<T: Num> HipOp for IndexAdd<T> {
    const INDICES: Indices = &[("ids", 1)];

    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        scatter(("scatter_add", true), self.axis, p, plan)
    }
}

/// With the op of the kernels, and whether all lines share one line of indices.
fn scatter(kernel: (&str, bool), axis: isize, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
    let (dst, ids, src) = (p.at(0), p.at(1), p.at(2));
    let (axis, bound) = axis_of(dst, axis)?;
    let mut strides = [0; MAX_RANK];
    strides[axis] = ids.view().strides.last().copied().unwrap_or(0);
    let ids = match kernel.1 {
        true => OperandView { strides: &strides[..src.layout.rank()], ..ids.view() },
        false => ids.view(),
    };
    let views = [dst.view(), ids, src.view()];
    scatter::scatter(kernel, src.dims(), (axis, bound), views, p.report(), p.device(), plan)
}
