//! Attention over sequences of different lengths, whose rows are concatenated or in the blocks of a cache.
use super::super::bind::Bound;
use super::super::{Binding, Problem, fits, units, unsupported, with_workspace};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Attention, AttentionPaged, AttentionVarlen};
use ops_core::{Call, Determinism, Float, Op, Operands, Reason};
use ops_kernels::Refused;
use ops_kernels::attention::ragged::{self, Keys, Plan, Ragged};
use ops_kernels::index::Report;

/// [`AttentionVarlen`] and [`AttentionPaged`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipRagged;

/// What the two ops have in common.
trait OverSequences: Op {
    type Of: Float;
    /// The index operands: where queries begin, how many keys there are, and the block table, if there is
    /// one.
    const INDICES: [&'static str; 3];

    fn attention(&self) -> &Attention<Self::Of>;
    /// The index of `cu_q` among the operands, and the keys. The other operands follow.
    fn places<'p>(p: &'p Problem<'_>) -> Result<(usize, Keys<'p>), Refused>;
}

impl<T: Float> OverSequences for AttentionVarlen<T> {
    type Of = T;
    const INDICES: [&'static str; 3] = ["cu_q", "cu_k", "cu_k"];

    fn attention(&self) -> &Attention<T> {
        &self.attention
    }
    fn places<'p>(p: &'p Problem<'_>) -> Result<(usize, Keys<'p>), Refused> {
        let &[rows, ..] = p.at(1).dims() else { return Err(Refused::Rank(p.at(1).layout.rank())) };
        Ok((3, Keys::SideBySide { cu_k: p.at(4).view(), rows }))
    }
}

impl<T: Float> OverSequences for AttentionPaged<T> {
    type Of = T;
    const INDICES: [&'static str; 3] = ["cu_q", "lengths", "block_table"];

    fn attention(&self) -> &Attention<T> {
        &self.attention
    }
    fn places<'p>(p: &'p Problem<'_>) -> Result<(usize, Keys<'p>), Refused> {
        let (k, table, lengths) = (p.at(1), p.at(3), p.at(4));
        let (&[blocks, block, ..], &[_, width]) = (k.dims(), table.dims()) else {
            return Err(Refused::Rank(table.layout.rank()));
        };
        Ok((5, Keys::Blocks { table: table.view(), lengths: lengths.view(), width, blocks, block }))
    }
}

fn plan<O: OverSequences>(op: &O, p: &Problem<'_>, reports: [Report; 3]) -> Result<Plan, Refused> {
    let (q, k, v) = (p.at(0), p.at(1), p.at(2));
    let (&[n, heads, d], &[.., kv_heads, _], &[.., dv]) = (q.dims(), k.dims(), v.dims()) else {
        return Err(Refused::Rank(q.layout.rank()));
    };
    let (at, keys) = O::places(p)?;
    let cu_q = p.at(at);
    // The last operands of both: sinks, alibi, o, lse.
    let rest = 5.max(at + 1);
    let op = op.attention();
    let call = Ragged {
        sequences: cu_q.layout.len().saturating_sub(1) as u64,
        heads,
        kv_heads,
        n,
        d,
        dv,
        q: q.view(),
        k: k.view(),
        v: v.view(),
        o: p.at(rest + 2).view(),
        cu_q: cu_q.view(),
        keys,
        slopes: p.get(rest + 1).map(Bound::view),
        sinks: p.get(rest).map(Bound::view),
        lse: p.get(rest + 3).map(Bound::view),
        scale: op.scale_for(q.layout.last()),
        causal: op.causal,
        window: [op.window.0, op.window.1].map(|side| side.map(|n| n as u64)),
        softcap: op.softcap,
        reports,
    };
    ragged::prepare(&call, p.device())
}

impl<O: OverSequences> Provider<O> for HipRagged {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, target: &Target, op: &O, _: &dyn Operands) -> Determinism {
        // A block of rows starts at the first key that any of them sees.
        if op.attention().window.0.is_none() { target.sums_level() } else { Determinism::Run }
    }

    fn applicable(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| plan(op, problem, [Report::default(); 3]))
    }

    fn how(&self, target: &Target, op: &O, on: &dyn Operands) -> Option<String> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, target.launch_device()).ok()?;
        units(target, plan(op, &problem, [Report::default(); 3]).ok()?.main.instance)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let mut problem = binding.bind::<O>(args, rocm)?;
        let check = rocm.stream().index_check()?;
        let reports = O::INDICES.map(|operand| {
            problem.report_to(&check, rocm.index_names().number(op.name(), operand));
            problem.report()
        });
        let Plan { main, workspace, args: mut kernel_args } =
            plan(op, &problem, reports).map_err(|refused| unsupported(op, refused, args))?;
        kernel_args.attention.arrivals = rocm.stream().arrivals()? as u64;
        with_workspace(rocm, workspace, |address| {
            kernel_args.attention.partial = address;
            // SAFETY: a call's views lie in their memory; the plan and its workspace are made for them, and
            // the stream may access them and its counters. The kernels check every index before they use it.
            unsafe { rocm.kernels().launch(rocm.stream(), &main, &kernel_args) }
        })
    }
}
