//! Norms over rows, and over groups of channels.
use super::{Bound, HipOp, Problem, Slots, read, read_if, slots, write};
use crate::HipSpace;
use ops_core::ops::{
    AddRmsNorm, AddRmsNormArgs, GroupNorm, GroupNormArgs, LayerNorm, LayerNormArgs, RmsNorm, RmsNormArgs,
};
use ops_core::{Float, Op};
use ops_kernels::{Launch, Refused, norm};

/// A norm's operands by their places; those that the op does not have are beyond the last.
struct Places {
    weight: usize,
    bias: usize,
    residual: usize,
    y: usize,
    sum: usize,
}
const NONE: usize = super::MOST;

fn operands<'p>(p: &'p Problem, at: &Places, eps: f64) -> norm::Norm<'p> {
    let view = |place: usize| p.get(place).map(Bound::view);
    norm::Norm {
        x: p.at(0).view(),
        y: p.at(at.y).view(),
        weight: view(at.weight),
        bias: view(at.bias),
        residual: view(at.residual),
        sum: view(at.sum),
        eps,
    }
}

impl<T: Float, W: Float> HipOp for RmsNorm<T, W> {
    type Kernel = norm::NormArgs;

    fn slots<'s>(a: &'s RmsNormArgs<'_, HipSpace, T, W>) -> Slots<'s> {
        slots([read(&a.x), read(&a.weight), write(&a.y)])
    }
    fn plan(&self, p: &Problem) -> Result<(Launch, Self::Kernel), Refused> {
        let places = Places { weight: 1, bias: NONE, residual: NONE, y: 2, sum: NONE };
        norm::prepare(self.name(), p.at(0).dims(), &operands(p, &places, self.eps), p.device())
    }
}

impl<T: Float, W: Float> HipOp for LayerNorm<T, W> {
    type Kernel = norm::NormArgs;

    fn slots<'s>(a: &'s LayerNormArgs<'_, HipSpace, T, W>) -> Slots<'s> {
        slots([read(&a.x), read_if(&a.weight), read_if(&a.bias), write(&a.y)])
    }
    fn plan(&self, p: &Problem) -> Result<(Launch, Self::Kernel), Refused> {
        let places = Places { weight: 1, bias: 2, residual: NONE, y: 3, sum: NONE };
        norm::prepare(self.name(), p.at(0).dims(), &operands(p, &places, self.eps), p.device())
    }
}

impl<T: Float, W: Float> HipOp for AddRmsNorm<T, W> {
    type Kernel = norm::NormArgs;

    fn slots<'s>(a: &'s AddRmsNormArgs<'_, HipSpace, T, W>) -> Slots<'s> {
        slots([read(&a.x), read(&a.residual), read(&a.weight), write(&a.y), write(&a.sum)])
    }
    fn plan(&self, p: &Problem) -> Result<(Launch, Self::Kernel), Refused> {
        let places = Places { weight: 2, bias: NONE, residual: 1, y: 3, sum: 4 };
        norm::prepare(self.name(), p.at(0).dims(), &operands(p, &places, self.eps), p.device())
    }
}

impl<T: Float, W: Float> HipOp for GroupNorm<T, W> {
    type Kernel = norm::GroupNormArgs;

    fn slots<'s>(a: &'s GroupNormArgs<'_, HipSpace, T, W>) -> Slots<'s> {
        slots([read(&a.x), read_if(&a.weight), read_if(&a.bias), write(&a.y)])
    }
    fn plan(&self, p: &Problem) -> Result<(Launch, Self::Kernel), Refused> {
        let places = Places { weight: 1, bias: 2, residual: NONE, y: 3, sum: NONE };
        let norm = operands(p, &places, self.eps);
        norm::group(p.at(0).dims(), self.num_groups as u64, &norm, p.device())
    }
}
