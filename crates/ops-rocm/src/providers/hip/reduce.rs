//! Reductions over axes. With few outputs, rows are split, with memory for the parts' results.
use super::{Binding, Problem, fits, unsupported};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{ArgReduce, Axes, Reduce};
use ops_core::{Call, Determinism, Num, Op, Operands, Reason};
use ops_kernels::Refused;
use ops_kernels::reduce::{self, Plan};

/// [`Reduce`] and [`ArgReduce`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipReduce;

fn plan(name: &'static str, axes: Axes, p: &Problem<'_>) -> Result<Plan, Refused> {
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
    reduce::prepare(name, &on, p.device())
}

fn applicable(name: &'static str, axes: Axes, target: &Target, on: &dyn Operands) -> Result<(), Reason> {
    fits(target, on, |problem| plan(name, axes, problem))
}

/// If required, rows of contiguous elements are summed in an order that depends only on their length. Other
/// layouts are summed in columns if outputs are neighbours, which a single row of outputs is not.
fn level(name: &'static str, axes: Axes, target: &Target, on: &dyn Operands) -> Determinism {
    let mut binding = Binding::new();
    let in_rows = binding.assumed(on, target.launch_device()).is_ok_and(|problem| {
        let (x, y) = (problem.at(0), problem.at(1));
        axes.split(name, &x.layout, &y.layout)
            .is_ok_and(|split| split.reduced.last() > 1 && split.reduced.last_stride() == 1)
    });
    if in_rows { target.sums_level() } else { Determinism::Run }
}

fn launch<O: Op>(rocm: &Rocm, axes: Axes, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
    let (op, args) = call.into_parts();
    let args = &*args;
    let mut binding = Binding::new();
    let problem = binding.bind::<O>(args, rocm)?;
    let plan = plan(op.name(), axes, &problem).map_err(|refused| unsupported(op, refused, args))?;
    let (kernels, stream) = (rocm.kernels(), rocm.stream());
    let Some(combine) = plan.combine else {
        // SAFETY: a call's views lie in their memory; the plan is made for them, and the stream may access
        // them.
        return unsafe { kernels.launch(stream, &plan.main, &plan.args) };
    };
    let memory = DeviceMemory::new(stream, usize::try_from(plan.workspace).unwrap_or(usize::MAX))?;
    let lent = memory.access(stream, Purpose::Write)?;
    let first = reduce::ReduceArgs { partial: lent.address() as u64, ..plan.args };
    let second = first.combining(problem.device().wave);
    // SAFETY: as above; the workspace has the size that both launches were planned for, and the stream may
    // access it.
    unsafe {
        kernels.launch(stream, &plan.main, &first)?;
        kernels.launch(stream, &combine, &second)
    }
}

impl<T: Num> Provider<Reduce<T>> for HipReduce {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, target: &Target, op: &Reduce<T>, on: &dyn Operands) -> Determinism {
        level(op.name(), op.axes(), target, on)
    }

    fn applicable(&self, target: &Target, op: &Reduce<T>, on: &dyn Operands) -> Result<(), Reason> {
        applicable(op.name(), op.axes(), target, on)
    }
    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Reduce<T>, HipSpace>) -> Result<()> {
        let axes = call.op().axes();
        launch(rocm, axes, call)
    }
}

impl<T: Num> Provider<ArgReduce<T>> for HipReduce {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, target: &Target, op: &ArgReduce<T>, on: &dyn Operands) -> Determinism {
        level(op.name(), op.axis.into(), target, on)
    }

    fn applicable(&self, target: &Target, op: &ArgReduce<T>, on: &dyn Operands) -> Result<(), Reason> {
        applicable(op.name(), op.axis.into(), target, on)
    }
    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, ArgReduce<T>, HipSpace>) -> Result<()> {
        let axes = call.op().axis.into();
        launch(rocm, axes, call)
    }
}
