//! Batch normalisation, pooling and upsampling.
use super::{Bound, HipOp, Problem};
use ops_core::Float;
use ops_core::ops::{BatchNorm, Pool2d, Source, Upsample, UpsampleFn};
use ops_core::{Op, ops};
use ops_kernels::planes::Extents;
use ops_kernels::upsample::{Mode, Places};
use ops_kernels::{Launch, Refused, batch_norm, pool, upsample};

impl<T: Float> HipOp for BatchNorm<T> {
    type Kernel = batch_norm::BatchNormArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let given = |place| p.get(place).map(Bound::view);
        let on = batch_norm::BatchNorm {
            x: p.at(0).view(),
            y: p.at(5).view(),
            weight: given(1),
            bias: given(2),
            mean: p.at(3).view(),
            var: p.at(4).view(),
            eps: self.eps,
        };
        batch_norm::prepare(p.at(0).dims(), &on, p.device())
    }
}

fn extents(on: &Bound) -> Extents<'_> {
    Extents { dims: on.dims(), view: on.view() }
}

impl<T: Float> HipOp for Pool2d<T> {
    type Kernel = pool::PoolArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let ops::Windows { kernel, stride, padding, .. } = self.windows;
        let along =
            |axis: usize| pool::Windows::new(kernel[axis] as u64, stride[axis] as u64, padding[axis] as u64);
        pool::prepare(self.name(), extents(p.at(0)), extents(p.at(1)), [along(0)?, along(1)?], p.device())
    }
}

impl<T: Float> HipOp for Upsample<T> {
    type Kernel = upsample::UpsampleArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
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
        upsample::prepare(mode, x, y, [places(1), places(0)], p.device())
    }
}
