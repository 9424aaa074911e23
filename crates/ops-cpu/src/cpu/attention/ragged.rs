//! Attention over sequences of different lengths, concatenated or in the blocks of a paged cache.
use super::super::Cpu;
use super::attention;
use super::split::Split;
use super::tile::Problem;
use crate::host::raw::{Raw, RawMut};
use crate::host::sequences::Sequences;
use crate::{Host, Kernel, Reference};
use ops_core::ops::{Attention, AttentionPaged, AttentionVarlen};
use ops_core::{Call, DType, Determinism, Float, Layout, Result};

/// The operands of a call. Keys and values are in blocks, `[blocks, block, h_kv, ..]`.
struct Operands<'a> {
    q: Raw<'a>,
    k: Raw<'a>,
    v: Raw<'a>,
    alibi: Option<Raw<'a>>,
    sinks: Option<Raw<'a>>,
    o: RawMut<'a>,
    lse: Option<RawMut<'a>>,
}

fn ragged<T: Float>(
    name: &'static str,
    op: &Attention<T>,
    sequences: &Sequences,
    a: Operands<'_>,
) -> Result<()> {
    if a.q.layout.is_empty() {
        return Ok(());
    }
    // The rows of all sequences, as those of one batch entry.
    let (q, o) = (a.q.layout.unsqueeze(0)?, a.o.layout.unsqueeze(0)?);
    let lse = match a.lse {
        Some(lse) => {
            let layout = lse.layout.unsqueeze(0)?;
            Some(lse.with_layout(layout))
        }
        None => None,
    };
    let problem = Problem {
        op: name,
        q: a.q.with_layout(q),
        k: a.k,
        v: a.v,
        sequences,
        mask: None,
        alibi: a.alibi,
        sinks: a.sinks,
        scale: op.scale_for(a.q.layout.last()) as f32,
        softcap: op.softcap.map(|c| c as f32),
        visible: &|i, t, s| op.visible(i, t, s),
        heads: q.dims()[2],
        kv_heads: a.k.dims()[2],
        d: q.last(),
        dv: a.v.layout.last(),
    };
    attention(&problem, Split::of_call(), a.o.with_layout(o), lse)
}

/// Whether the reference computes this call: f64, and rows without elements.
fn is_for_reference<T: Float>(q: &Layout, v: &Layout) -> bool {
    T::DTYPE == DType::F64 || q.last() == 0 || v.last() == 0
}

impl<T: Float> Kernel<AttentionVarlen<T>> for Cpu {
    fn determinism(&self, _: &AttentionVarlen<T>, _: &dyn ops_core::Operands) -> Determinism {
        self.sums_level()
    }
    fn compute(&self, call: Call<'_, '_, AttentionVarlen<T>, Host>) -> Result<()> {
        if is_for_reference::<T>(call.args().q.layout(), call.args().v.layout()) {
            return Reference::new().compute(call);
        }
        let name = call.name();
        let (op, a) = call.into_parts();
        let (q, k, v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let (queries, keys) = (q.dims()[0], k.dims()[0]);
        let sequences = Sequences::varlen(name, (Raw::of(&a.cu_q), queries), (Raw::of(&a.cu_k), keys))?;
        let operands = Operands {
            q,
            // All keys form one block.
            k: k.with_layout(k.layout.unsqueeze(0)?),
            v: v.with_layout(v.layout.unsqueeze(0)?),
            alibi: Raw::any_if(&a.alibi),
            sinks: Raw::any_if(&a.sinks),
            o: RawMut::of(&mut a.o),
            lse: a.lse.as_mut().map(RawMut::of),
        };
        ragged(name, &op.attention, &sequences, operands)
    }
}

impl<T: Float> Kernel<AttentionPaged<T>> for Cpu {
    fn determinism(&self, _: &AttentionPaged<T>, _: &dyn ops_core::Operands) -> Determinism {
        self.sums_level()
    }
    fn compute(&self, call: Call<'_, '_, AttentionPaged<T>, Host>) -> Result<()> {
        if is_for_reference::<T>(call.args().q.layout(), call.args().v.layout()) {
            return Reference::new().compute(call);
        }
        let name = call.name();
        let (op, a) = call.into_parts();
        let (q, k, v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let (table, lengths) = (Raw::any(&a.block_table), Raw::any(&a.lengths));
        let blocks = [k.dims()[0], k.dims()[1]];
        let sequences = Sequences::paged(name, blocks, table, lengths, (Raw::of(&a.cu_q), q.dims()[0]))?;
        let operands = Operands {
            q,
            k,
            v,
            alibi: Raw::any_if(&a.alibi),
            sinks: Raw::any_if(&a.sinks),
            o: RawMut::of(&mut a.o),
            lse: a.lse.as_mut().map(RawMut::of),
        };
        ragged(name, &op.attention, &sequences, operands)
    }
}
