//! Reductions over axes. With few outputs, rows are split, with memory for the parts' results.
use super::{HipOp, Problem};
use crate::choice::Target;
use ops_core::ops::{ArgReduce, Axes, Reduce};
use ops_core::{Determinism, Num, Op, Operands};
use ops_kernels::{Plan, Refused, reduce};

impl<T: Num> HipOp for Reduce<T> {
    fn rows_level(&self, target: &Target, on: &dyn Operands) -> Determinism {
        level(self.name(), self.axes(), target, on)
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        reduce(self.name(), self.axes(), p, plan)
    }
}

impl<T: Num> HipOp for ArgReduce<T> {
    fn rows_level(&self, target: &Target, on: &dyn Operands) -> Determinism {
        level(self.name(), self.axis.into(), target, on)
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        reduce(self.name(), self.axis.into(), p, plan)
    }
}

fn reduce(name: &'static str, axes: Axes, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
    let (x, y) = (p.at(0), p.at(1));
    let split = axes.split(name, &x.layout, &y.layout).map_err(|_| Refused::Rank(x.layout.rank()))?;
    let (kept, y, along) = (x.relaid(&split.kept), y.relaid(&split.y), x.relaid(&split.reduced));
    let on = reduce::Reduction {
        kept: kept.dims(),
        x: kept.view(),
        y: y.view(),
        reduced: along.dims(),
        along: along.view().strides,
    };
    reduce::prepare(name, &on, p.device(), plan)
}

/// If required, rows of contiguous elements are summed in an order that depends only on their length. Other
/// layouts are summed in columns if outputs are neighbours, which a single row of outputs is not.
fn level(name: &'static str, axes: Axes, target: &Target, on: &dyn Operands) -> Determinism {
    let in_rows = on.get("x").zip(on.get("y")).is_some_and(|(x, y)| {
        axes.split(name, x.layout, y.layout)
            .is_ok_and(|split| split.reduced.last() > 1 && split.reduced.last_stride() == 1)
    });
    if in_rows { target.sums_level() } else { Determinism::Run }
}
