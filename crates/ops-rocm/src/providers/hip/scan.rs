//! Running sums along any axis. With few rows, rows are split, with memory for the parts' sums.
use super::{Binding, Problem, fits, unsupported};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::CumSum;
use ops_core::{Call, Determinism, Num, Operands, Reason};
use ops_kernels::Refused;
use ops_kernels::scan::{self, Plan, ScanArgs};

/// [`CumSum`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipScan;

fn plan(axis: isize, p: &Problem<'_>) -> Result<Plan, Refused> {
    let along = |place| p.at(place).along(axis);
    let (x, y) = (along(0)?, along(1)?);
    scan::prepare(x.dims(), x.view(), y.view(), p.device())
}

impl<T: Num> Provider<CumSum<T>> for HipScan {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, target: &Target, _: &CumSum<T>, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn applicable(&self, target: &Target, op: &CumSum<T>, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| plan(op.axis, problem))
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, CumSum<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<CumSum<T>>(args, rocm)?;
        let plan = plan(op.axis, &problem).map_err(|refused| unsupported(op, refused, args))?;
        let (kernels, stream) = (rocm.kernels(), rocm.stream());
        if plan.workspace == 0 {
            // SAFETY: a call's views lie in their memory; the plan is made for them, and the stream may
            // access them.
            return unsafe { kernels.launch(stream, &plan.launch, &plan.args) };
        }
        let memory = DeviceMemory::new(stream, usize::try_from(plan.workspace).unwrap_or(usize::MAX))?;
        let lent = memory.access(stream, Purpose::Write)?;
        let sums = ScanArgs { partial: lent.address() as u64, ..plan.args };
        // SAFETY: as above; the workspace has the size that both launches were planned for, and the stream
        // may access it.
        unsafe {
            kernels.launch(stream, &plan.launch, &sums)?;
            kernels.launch(stream, &plan.launch, &ScanArgs { totals: 0, ..sums })
        }
    }
}
