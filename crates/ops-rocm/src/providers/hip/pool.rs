//! Pooling.
use super::{Bound, HipOp, Problem};
use ops_core::ops::{self, Pool2d};
use ops_core::{Float, Op};
use ops_kernels::pool_upsample::Extents;
use ops_kernels::{Plan, Refused, pool};

pub(super) fn extents(on: &Bound) -> Extents<'_> {
    Extents { dims: on.dims(), view: on.view() }
}

impl<T: Float> HipOp for Pool2d<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let ops::Windows { kernel, stride, padding, .. } = self.windows;
        let along =
            |axis: usize| pool::Windows::new(kernel[axis] as u64, stride[axis] as u64, padding[axis] as u64);
        plan.add(pool::prepare(
            self.name(),
            extents(p.at(0)),
            extents(p.at(1)),
            [along(0)?, along(1)?],
            p.device(),
        )?)
    }
}
