//! Norms over rows, and over groups of channels; few groups are split, with memory for the parts' results.
use super::{Binding, Bound, HipOp, Problem, fits, unsupported, with_workspace};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{AddRmsNorm, GroupNorm, LayerNorm, RmsNorm};
use ops_core::{Call, Determinism, Float, Op, Operands, Reason};
use ops_kernels::norm::{self, GroupPlan};
use ops_kernels::{Launch, Refused};

/// Indices of a norm's operands; those that the op lacks are past the end.
struct Places {
    weight: usize,
    bias: usize,
    residual: usize,
    y: usize,
    sum: usize,
}
const NONE: usize = super::MAX_OPERANDS;

fn operands<'p>(p: &'p Problem<'_>, at: &Places, eps: f64) -> norm::Norm<'p> {
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

impl<T: Float> HipOp for RmsNorm<T> {
    type Kernel = norm::NormArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let places = Places { weight: 1, bias: NONE, residual: NONE, y: 2, sum: NONE };
        norm::prepare(self.name(), p.at(0).dims(), &operands(p, &places, self.eps), p.device())
    }
}

impl<T: Float> HipOp for LayerNorm<T> {
    type Kernel = norm::NormArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let places = Places { weight: 1, bias: 2, residual: NONE, y: 3, sum: NONE };
        norm::prepare(self.name(), p.at(0).dims(), &operands(p, &places, self.eps), p.device())
    }
}

impl<T: Float> HipOp for AddRmsNorm<T> {
    type Kernel = norm::NormArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let places = Places { weight: 2, bias: NONE, residual: 1, y: 3, sum: 4 };
        norm::prepare(self.name(), p.at(0).dims(), &operands(p, &places, self.eps), p.device())
    }
}

/// [`GroupNorm`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipGroupNorm;

fn group_plan<T: Float>(op: &GroupNorm<T>, p: &Problem<'_>) -> Result<GroupPlan, Refused> {
    let places = Places { weight: 1, bias: 2, residual: NONE, y: 3, sum: NONE };
    norm::group(p.at(0).dims(), op.num_groups as u64, &operands(p, &places, op.eps), p.device())
}

impl<T: Float> Provider<GroupNorm<T>> for HipGroupNorm {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, target: &Target, _: &GroupNorm<T>, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn applicable(&self, target: &Target, op: &GroupNorm<T>, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| group_plan(op, problem))
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, GroupNorm<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<GroupNorm<T>>(args, rocm)?;
        let GroupPlan { main, apply, workspace, args: mut kernel_args } =
            group_plan(op, &problem).map_err(|refused| unsupported(op, refused, args))?;
        with_workspace(rocm, workspace, |address| {
            kernel_args.partial = address;
            [Some(&main), apply.as_ref()].into_iter().flatten().try_for_each(|launch| {
                // SAFETY: a call's views lie in their memory; the plan and its workspace are made for them,
                // and the stream may access them.
                unsafe { rocm.kernels().launch(rocm.stream(), launch, &kernel_args) }
            })
        })
    }
}
