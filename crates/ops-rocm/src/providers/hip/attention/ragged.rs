//! Attention over sequences of different lengths, whose rows are concatenated or in the blocks of a cache.
use super::super::bind::Bound;
use super::super::{HipOp, Indices, Problem};
use crate::choice::Target;
use ops_core::ops::{Attention, AttentionPaged, AttentionVarlen};
use ops_core::{Determinism, Float, Operands};
use ops_kernels::attention::ragged::{self, Keys, Ragged};
use ops_kernels::{Plan, Refused};

impl<T: Float> HipOp for AttentionVarlen<T> {
    const INDICES: Indices = &[("cu_q", 3), ("cu_k", 4), ("cu_k", 4)];

    fn rows_level(&self, target: &Target, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let &[rows, ..] = p.at(1).dims() else { return Err(Refused::Rank(p.at(1).layout.rank())) };
        let keys = Keys::SideBySide { cu_k: p.at(4).view(), rows };
        over_sequences(&self.attention, (3, keys), p, plan)
    }
}

impl<T: Float> HipOp for AttentionPaged<T> {
    const INDICES: Indices = &[("cu_q", 5), ("lengths", 4), ("block_table", 3)];

    fn rows_level(&self, target: &Target, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (k, table, lengths) = (p.at(1), p.at(3), p.at(4));
        let (&[blocks, block, ..], &[_, width]) = (k.dims(), table.dims()) else {
            return Err(Refused::Rank(table.layout.rank()));
        };
        let keys = Keys::Blocks { table: table.view(), lengths: lengths.view(), width, blocks, block };
        over_sequences(&self.attention, (5, keys), p, plan)
    }
}

/// `at` is the place of `cu_q` among the operands. The other operands follow.
fn over_sequences<T: Float>(
    op: &Attention<T>,
    (at, keys): (usize, Keys<'_>),
    p: &Problem<'_>,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let (q, k, v) = (p.at(0), p.at(1), p.at(2));
    let (&[n, heads, d], &[.., kv_heads, _], &[.., dv]) = (q.dims(), k.dims(), v.dims()) else {
        return Err(Refused::Rank(q.layout.rank()));
    };
    let cu_q = p.at(at);
    // The last operands of both: sinks, alibi, o, lse.
    let rest = 5.max(at + 1);
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
        reports: p.reports(),
    };
    ragged::prepare(&call, p.device(), plan)
}
