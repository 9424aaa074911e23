//! Sorting along any axis, with memory for sorted runs if a block cannot hold a row.
use super::bind::Bound;
use super::{Binding, Problem, fits, unsupported};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{ArgSort, Sort, TopK};
use ops_core::{Call, Determinism, Num, Op, Operands, Reason};
use ops_kernels::Refused;
use ops_kernels::sort::{self, Plan};

/// [`Sort`], [`ArgSort`] and [`TopK`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipSort;

/// What the three ops have in common.
trait Sorting: Op {
    fn axis(&self) -> isize;
    fn descending(&self) -> bool;
    /// The indices of values and indices among the operands.
    const OUTPUTS: [Option<usize>; 2];
    /// The number of elements wanted of each row; `None` for all.
    fn keep(&self) -> Option<usize> {
        None
    }
}
impl<T: Num> Sorting for Sort<T> {
    fn axis(&self) -> isize {
        self.axis
    }
    fn descending(&self) -> bool {
        self.descending
    }
    const OUTPUTS: [Option<usize>; 2] = [Some(1), None];
}
impl<T: Num> Sorting for ArgSort<T> {
    fn axis(&self) -> isize {
        self.axis
    }
    fn descending(&self) -> bool {
        self.descending
    }
    const OUTPUTS: [Option<usize>; 2] = [None, Some(1)];
}
impl<T: Num> Sorting for TopK<T> {
    fn axis(&self) -> isize {
        -1
    }
    fn descending(&self) -> bool {
        true
    }
    const OUTPUTS: [Option<usize>; 2] = [Some(1), Some(2)];
    fn keep(&self) -> Option<usize> {
        Some(self.k)
    }
}

fn plan<O: Sorting>(op: &O, p: &Problem<'_>) -> Result<Plan, Refused> {
    let along = |place: usize| p.at(place).along(op.axis());
    let x = along(0)?;
    let [values, indices] = O::OUTPUTS.map(|place| place.map(along).transpose());
    let (values, indices) = (values?, indices?);
    let sorting = sort::Sort {
        x: x.view(),
        values: values.as_ref().map(Bound::view),
        indices: indices.as_ref().map(Bound::view),
        keep: op.keep().unwrap_or(x.layout.last()) as u64,
        descending: op.descending(),
    };
    sort::prepare(x.dims(), &sorting, p.device())
}

impl<O: Sorting> Provider<O> for HipSort {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, _: &Target, _: &O, _: &dyn Operands) -> Determinism {
        Determinism::Batch
    }

    fn applicable(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| plan(op, problem))
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<O>(args, rocm)?;
        let plan = plan(op, &problem).map_err(|refused| unsupported(op, refused, args))?;
        let (kernels, stream) = (rocm.kernels(), rocm.stream());
        if plan.launches == 1 {
            let (launch, args) = plan.launch(0, 0);
            // SAFETY: a call's views lie in their memory; the plan is made for them, and the stream may
            // access them.
            return unsafe { kernels.launch(stream, &launch, &args) };
        }
        let memory = DeviceMemory::new(stream, usize::try_from(2 * plan.half).unwrap_or(usize::MAX))?;
        let lent = memory.access(stream, Purpose::Write)?;
        for at in 0..plan.launches {
            let (launch, args) = plan.launch(at, lent.address() as u64);
            // SAFETY: as above; the workspace has the size that all launches were planned for, and the stream
            // may access it.
            unsafe { kernels.launch(stream, &launch, &args) }?;
        }
        Ok(())
    }
}
