//! Ops that read and write elements by index, with memory for sorted indices if there are few lines.
use super::{Binding, Bound, HipOp, Problem, fits, unsupported, with_workspace};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Gather, IndexAdd, Scatter, ScatterAdd};
use ops_core::{Call, Determinism, MAX_RANK, Num, Op, Operands, Reason};
use ops_kernels::scatter::{self, GatherArgs, Plan, Step};
use ops_kernels::{Launch, OperandView, Refused};

/// The axis as an index into the operand's dimensions, and the size along it.
fn axis_of(operand: &Bound, axis: isize) -> Result<(usize, u64), Refused> {
    let rank = operand.layout.rank();
    let axis = operand.layout.shape().axis(axis).map_err(|_| Refused::Rank(rank))?;
    Ok((axis, operand.dims().get(axis).copied().unwrap_or(0)))
}

impl HipOp for Gather {
    type Kernel = GatherArgs;
    const INDICES: Option<&'static str> = Some("ids");

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, ids, y) = (p.at(0), p.at(1), p.at(2));
        let (axis, bound) = axis_of(x, self.axis)?;
        scatter::gather(y.dims(), axis, bound, [x.view(), ids.view(), y.view()], p.report(), p.device())
    }
}

/// [`Scatter`], [`ScatterAdd`] and [`IndexAdd`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipScatter;

/// What the three ops have in common.
trait Scattering: Op {
    fn axis(&self) -> isize;
    /// The op of the kernels.
    const KERNEL: &'static str;
    /// Whether all lines share one line of indices.
    const SHARED: bool;
}
impl Scattering for Scatter {
    fn axis(&self) -> isize {
        self.axis
    }
    const KERNEL: &'static str = "scatter";
    const SHARED: bool = false;
}
impl<T: Num> Scattering for ScatterAdd<T> {
    fn axis(&self) -> isize {
        self.axis
    }
    const KERNEL: &'static str = "scatter_add";
    const SHARED: bool = false;
}
impl<T: Num> Scattering for IndexAdd<T> {
    fn axis(&self) -> isize {
        self.axis
    }
    const KERNEL: &'static str = "scatter_add";
    const SHARED: bool = true;
}

fn plan<O: Scattering>(op: &O, p: &Problem<'_>) -> Result<Plan, Refused> {
    let (dst, ids, src) = (p.at(0), p.at(1), p.at(2));
    let (axis, bound) = axis_of(dst, op.axis())?;
    let mut strides = [0; MAX_RANK];
    strides[axis] = ids.view().strides.last().copied().unwrap_or(0);
    let ids = if O::SHARED {
        OperandView { strides: &strides[..src.layout.rank()], ..ids.view() }
    } else {
        ids.view()
    };
    let views = [dst.view(), ids, src.view()];
    scatter::scatter(O::KERNEL, src.dims(), axis, (bound, O::SHARED), views, p.report(), p.device())
}

impl<O: Scattering> Provider<O> for HipScatter {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, _: &Target, _: &O, _: &dyn Operands) -> Determinism {
        // How sums are computed depends on the number of lines.
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| plan(op, problem))
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let mut problem = binding.bind::<O>(args, rocm)?;
        let check = rocm.stream().index_check()?;
        problem.report_to(&check, rocm.index_names().number(op.name(), "ids"));
        let plan = plan(op, &problem).map_err(|refused| unsupported(op, refused, args))?;
        let stream = rocm.stream();
        with_workspace(rocm, plan.workspace, |workspace| {
            for at in 0..plan.launches {
                // SAFETY: a call's views lie in their memory; the plan is made for them. The workspace has
                // the size that all launches were planned for. The stream may access all of these.
                unsafe {
                    match plan.step(at, workspace) {
                        Step::Sort(launch, args) => rocm.kernels().launch(stream, &launch, &args),
                        Step::Scatter(launch, args) => rocm.kernels().launch(stream, &launch, &args),
                    }
                }?;
            }
            Ok(())
        })
    }
}
