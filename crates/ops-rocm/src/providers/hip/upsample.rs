//! Upsampling.
use super::pool::extents;
use super::{HipOp, Problem};
use ops_core::Float;
use ops_core::ops::{Source, Upsample, UpsampleFn};
use ops_kernels::pool_upsample::Extents;
use ops_kernels::upsample::{Mode, Places};
use ops_kernels::{Plan, Refused, upsample};

impl<T: Float> HipOp for Upsample<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y, f) = (extents(p.at(0)), extents(p.at(1)), self.function());
        let places = |from_last: usize| {
            let extent = |on: &Extents<'_>| on.dims.iter().rev().nth(from_last).map_or(1, |d| *d as usize);
            let Source { step, start, by, .. } = f.source(extent(&x), extent(&y)).reduced();
            Places { step, start, by }
        };
        let mode = match f {
            UpsampleFn::Nearest1d => Mode::Nearest1d,
            UpsampleFn::Nearest2d => Mode::Nearest2d,
            UpsampleFn::Bilinear2d { .. } => Mode::Bilinear2d,
            other => {
                return Err(Refused::NoKernel { op: other.name().to_owned(), types: vec![x.view.dtype] });
            }
        };
        plan.add(upsample::prepare(mode, x, y, [places(1), places(0)], p.device())?)
    }
}
