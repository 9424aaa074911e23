//! Attention. With few queries, the key range is split, with memory for the parts' results.
use super::bind::Bound;
use super::{Binding, Problem, fits, units, unsupported, with_workspace};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::Attention;
use ops_core::{Call, Determinism, Float, Operands, Reason};
use ops_kernels::Refused;
use ops_kernels::attention::{self, Plan};

mod ragged;

pub(crate) use ragged::HipRagged;

/// [`Attention`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipAttention;

fn plan<T: Float>(op: &Attention<T>, p: &Problem<'_>) -> Result<Plan, Refused> {
    let (q, k) = (p.at(0), p.at(1));
    let (&[batch, heads, t, d], &[_, kv_heads, s, _]) = (q.dims(), k.dims()) else {
        return Err(Refused::Rank(q.layout.rank()));
    };
    let call = attention::Attention {
        batch,
        heads,
        kv_heads,
        t,
        s,
        d,
        dv: p.at(2).dims()[3],
        q: q.view(),
        k: k.view(),
        v: p.at(2).view(),
        o: p.at(6).view(),
        mask: p.get(3).map(Bound::view),
        slopes: p.get(4).map(Bound::view),
        sinks: p.get(5).map(Bound::view),
        lse: p.get(7).map(Bound::view),
        scale: op.scale_for(q.layout.last()),
        causal: op.causal,
        window: [op.window.0, op.window.1].map(|side| side.map(|n| n as u64)),
        softcap: op.softcap,
    };
    attention::prepare(&call, p.device())
}

impl<T: Float> Provider<Attention<T>> for HipAttention {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, target: &Target, op: &Attention<T>, _: &dyn Operands) -> Determinism {
        // A block of rows starts at the first key that any of them sees.
        if op.window.0.is_none() { target.sums_level() } else { Determinism::Run }
    }

    fn applicable(&self, target: &Target, op: &Attention<T>, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| plan(op, problem))
    }

    fn how(&self, target: &Target, op: &Attention<T>, on: &dyn Operands) -> Option<String> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, target.launch_device()).ok()?;
        units(target, plan(op, &problem).ok()?.main.instance)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Attention<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<Attention<T>>(args, rocm)?;
        let Plan { main, workspace, args: mut kernel_args } =
            plan(op, &problem).map_err(|refused| unsupported(op, refused, args))?;
        if workspace > 0 {
            kernel_args.arrivals = rocm.stream().arrivals()? as u64;
        }
        with_workspace(rocm, workspace, |address| {
            kernel_args.partial = address;
            // SAFETY: a call's views lie in their memory; the plan and its workspace are made for them, and
            // the stream may access them and its counters.
            unsafe { rocm.kernels().launch(rocm.stream(), &main, &kernel_args) }
        })
    }
}
