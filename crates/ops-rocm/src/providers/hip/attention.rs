//! Attention, with memory for parts of the key range where there are few queries.
use super::bind::Bound;
use super::{Problem, Slots, launch_both, read, read_if, reason, slots, units, unsupported, write};
use crate::choice::{Provider, ProviderId, Target};
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Attention, AttentionArgs};
use ops_core::{Call, Float, Mask, Operands, Reason};
use ops_kernels::attention::{self, Plan};
use ops_kernels::{Dtype, Refused};

/// [`Attention`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipAttention;

fn slots_of<'s, T: Float, M: Mask>(a: &'s AttentionArgs<'_, HipSpace, T, M>) -> Slots<'s> {
    slots([read(&a.q), read(&a.k), read(&a.v), read_if(&a.mask), read_if(&a.alibi), write(&a.o)])
}

fn plan<T: Float, M: Mask>(op: &Attention<T, M>, p: &Problem) -> Result<Plan, Refused> {
    let (q, k) = (p.at(0), p.at(1));
    let (&[batch, heads, t, d], &[_, kv_heads, s, _]) = (q.dims(), k.dims()) else {
        return Err(Refused::Rank(q.layout.rank()));
    };
    let mask = p.get(3).map(Bound::view);
    if let Some(mask) = mask.filter(|mask| mask.dtype != q.dtype && mask.dtype != Dtype::U8) {
        return Err(Refused::NoKernel { op: "attention".into(), types: vec![q.dtype, mask.dtype] });
    }
    let call = attention::Attention {
        batch,
        heads,
        kv_heads,
        t,
        s,
        d,
        q: q.view(),
        k: k.view(),
        v: p.at(2).view(),
        o: p.at(5).view(),
        mask,
        slopes: p.get(4).map(Bound::view),
        scale: op.scale_for(q.layout.last()),
        causal: op.causal,
        window: [op.window.0, op.window.1].map(|side| side.map(|n| n as u64)),
        softcap: op.softcap,
    };
    attention::prepare(&call, p.device())
}

impl<T: Float, M: Mask> Provider<Attention<T, M>> for HipAttention {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn applicable(&self, target: &Target, op: &Attention<T, M>, on: &dyn Operands) -> Result<(), Reason> {
        let problem = Problem::assumed(on, target.kernels())?;
        plan(op, &problem).map(drop).map_err(|refused| reason(refused, on))
    }

    fn how(&self, target: &Target, op: &Attention<T, M>, on: &dyn Operands) -> Option<String> {
        let problem = Problem::assumed(on, target.kernels()).ok()?;
        units(target, plan(op, &problem).ok()?.main.instance)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Attention<T, M>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let (problem, _lent) = Problem::bind(args, &slots_of(args), rocm)?;
        let Plan { main, combine, workspace, args: kernel_args } =
            plan(op, &problem).map_err(|refused| unsupported(op, refused, args))?;
        // SAFETY: a call's views lie in their memory; the plan and its workspace are made for them, and they are lent to
        // the stream.
        unsafe { launch_both(rocm, &main, combine.as_ref(), kernel_args, workspace, |a| &mut a.partial) }
    }
}
