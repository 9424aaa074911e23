//! Products of tokens with the weights of their experts.
use super::bind::Bound;
use super::{Binding, Problem, fits, no_matrix, units, unsupported, with_workspace};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::LinearExperts;
use ops_core::{Call, Determinism, Float, Op, Operands, Reason};
use ops_kernels::Refused;
use ops_kernels::experts::{self, Plan};

/// [`LinearExperts`]: many rows are sorted by expert on the device, in memory of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipExperts;

fn plan(p: &Problem<'_>) -> Result<Plan, Refused> {
    let (x, weight, ids, bias, y) = (p.at(0), p.at(1), p.at(2), p.get(3), p.at(4));
    let (&[_, m, d], &[n, k, o]) = (x.dims(), y.dims()) else {
        return Err(Refused::Rank(x.layout.rank()));
    };
    let experts = weight.dims().first().copied().unwrap_or(0);
    let on = experts::Experts {
        x: x.view(),
        weight: weight.view(),
        ids: ids.view(),
        bias: bias.map(Bound::view),
        y: y.view(),
    };
    experts::prepare([n, k, o], [m, d], experts, &on, p.report(), p.device())
}

impl<T: Float> Provider<LinearExperts<T>> for HipExperts {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, target: &Target, _: &LinearExperts<T>, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn applicable(&self, target: &Target, _: &LinearExperts<T>, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, plan)
    }

    fn how(&self, target: &Target, _: &LinearExperts<T>, on: &dyn Operands) -> Option<String> {
        let mut binding = Binding::new();
        let plan = plan(&binding.assumed(on, target.launch_device()).ok()?).ok()?;
        let limit = "with few rows per expert, memory bandwidth is the limit";
        if plan.main.instance.family.needs_dot4() {
            return units(target, plan.main.instance).map(|units| format!("row by row, {units}: {limit}"));
        }
        if plan.launches == 1 {
            return Some(format!("row by row: {limit}"));
        }
        let on_vectors =
            || no_matrix(target).unwrap_or_else(|| "matrix units do not support these types".into());
        let how =
            units(target, plan.main.instance).unwrap_or_else(|| format!("on vector units: {}", on_vectors()));
        Some(format!("rows sorted by expert, {how}"))
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, LinearExperts<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let mut problem = binding.bind::<LinearExperts<T>>(args, rocm)?;
        let stream = rocm.stream();
        let check = stream.index_check()?;
        problem.report_to(&check, rocm.index_names().number(op.name(), "ids"));
        let plan = plan(&problem).map_err(|refused| unsupported(op, refused, args))?;
        with_workspace(rocm, plan.workspace, |workspace| {
            for at in 0..plan.launches {
                let (launch, args) = plan.launch(at, workspace);
                // SAFETY: a call's views lie in their memory; the plan is made for them. The workspace has
                // the size that all launches were planned for. The stream may access all of these.
                unsafe { rocm.kernels().launch(stream, &launch, &args) }?;
            }
            Ok(())
        })
    }
}
