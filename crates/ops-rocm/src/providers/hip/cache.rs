//! Writing rows to key and value caches.
use super::{Binding, HipOp, Problem, fits, unsupported};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{CacheWrite, QkNormRopeCacheWrite, RopeCacheWrite, RopeOrder};
use ops_core::{Call, Determinism, Float, Op, Operands, Reason};
use ops_kernels::cache::{self, CacheWriteArgs, RopeCacheArgs};
use ops_kernels::index::Report;
use ops_kernels::{Launch, Refused};

impl<T: Float> HipOp for CacheWrite<T> {
    type Kernel = CacheWriteArgs;
    const INDICES: Option<&'static str> = Some("slots");

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, cache) = (p.at(0), p.at(2));
        let bound = cache.dims().first().copied().unwrap_or(0);
        let call = cache::CacheWrite {
            x: x.view(),
            slots: p.at(1).view(),
            cache: cache.view(),
            bound,
            report: p.report(),
        };
        cache::write(x.dims(), &call, p.device())
    }
}

/// [`RopeCacheWrite`] and [`QkNormRopeCacheWrite`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipKeys;

/// What the two ops have in common.
trait KeyWriting: Op {
    fn order(&self) -> RopeOrder;
    /// The norm's eps, if there is one; its weight then comes after `v`.
    fn eps(&self) -> Option<f64>;
}
impl<T: Float> KeyWriting for RopeCacheWrite<T> {
    fn order(&self) -> RopeOrder {
        self.order
    }
    fn eps(&self) -> Option<f64> {
        None
    }
}
impl<T: Float> KeyWriting for QkNormRopeCacheWrite<T> {
    fn order(&self) -> RopeOrder {
        self.order
    }
    fn eps(&self) -> Option<f64> {
        Some(self.eps)
    }
}

fn plan<O: KeyWriting>(
    op: &O,
    p: &Problem<'_>,
    reports: [Report; 2],
) -> Result<(Launch, RopeCacheArgs), Refused> {
    // The operands after the norm's weight.
    let at = |place: usize| p.at(place + usize::from(op.eps().is_some()));
    let (k, v, cos, keys) = (p.at(0), p.at(1), at(2), at(6));
    let (&[n, h, d], &[.., dv], &[rows, half], &[slots, ..]) = (k.dims(), v.dims(), cos.dims(), keys.dims())
    else {
        return Err(Refused::Rank(k.layout.rank()));
    };
    let call = cache::RopeCacheWrite {
        dims: [n, h, d, dv],
        k: k.view(),
        v: v.view(),
        norm: op.eps().map(|eps| (p.at(2).view(), eps)),
        cos: cos.view(),
        sin: at(3).view(),
        positions: at(4).view(),
        slots: at(5).view(),
        k_cache: keys.view(),
        v_cache: at(7).view(),
        tables: [rows, half],
        cache_slots: slots,
        interleaved: op.order() == RopeOrder::Interleaved,
        reports,
    };
    cache::rope_write(&call, p.device())
}

impl<O: KeyWriting> Provider<O> for HipKeys {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, _: &Target, _: &O, _: &dyn Operands) -> Determinism {
        Determinism::Batch
    }

    fn applicable(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| plan(op, problem, [Report::default(); 2]))
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let mut problem = binding.bind::<O>(args, rocm)?;
        let check = rocm.stream().index_check()?;
        let reports = ["positions", "slots"].map(|operand| {
            problem.report_to(&check, rocm.index_names().number(op.name(), operand));
            problem.report()
        });
        let planned = plan(op, &problem, reports).map_err(|refused| unsupported(op, refused, args))?;
        // SAFETY: a call's views lie in their memory; the plan is made for them, and the stream may access
        // them.
        unsafe { rocm.kernels().launch(rocm.stream(), &planned.0, &planned.1) }
    }
}
