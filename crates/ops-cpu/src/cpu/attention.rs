//! Scaled dot-product attention in tiles. Keys and values are read in place, once for all query heads
//! of a group, and only one tile of scores per thread exists at a time.
//!
//! Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, "Online normalizer calculation for
//! softmax", 2018; Dao et al., "Flash-Decoding", 2023, for the split over keys.
use super::rows::{Rows, Scratch};
use super::vectors::{TaskResult, on_vector, report, unsupported_dtype};
use super::{Cpu, threads};
use crate::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::host::sequences::Sequences;
use crate::{Host, Kernel};
use bytemuck::cast_slice_mut;
use ops_core::ops::Attention;
use ops_core::{Call, DType, Determinism, Error, Float, Layout, Operands, Result};
use ops_simd::rows::Running;
use ops_simd::{Isa, Store};
use split::Split;
use tile::{Problem, Tile};

mod mask;
mod products;
mod ragged;
mod split;
#[cfg(test)]
mod tests;
mod tile;

/// Query rows per tile, counted over all heads of a group.
const TILE_QUERY_ROWS: usize = 64;

/// Computes a call in tiles by sequence, heads and queries, and also by keys if there are too few tiles.
fn attention(p: &Problem<'_>, split: Split, o: RawMut<'_>, lse: Option<RawMut<'_>>) -> Result<()> {
    let tiles = tiles(p)?;
    let lse = lse.map(rows_of_one).transpose()?;
    let out = Output { rows: report(p.op, Rows::new(o))?, lse, dtype: p.q.dtype };
    let plan = split.plan(p, &tiles);
    if plan.keys_apart {
        return split::run_parts(p, &tiles, &plan, &out);
    }
    let done = threads::split(tiles.len(), plan.mean_cost, &|range| {
        let mut state = split::Partial::default();
        tiles[range].iter().try_for_each(|tile| state.run(p, tile, plan.step(p, tile), &out))
    });
    report(p.op, done)
}

/// The tiles of a call, except those without queries.
fn tiles(p: &Problem<'_>) -> Result<Vec<Tile>> {
    let step = (TILE_QUERY_ROWS / p.group()).max(1);
    let count = p.sequences.list.iter().map(|s| s.queries.len().div_ceil(step) * p.kv_heads).sum();
    let mut tiles = super::rows::reserve(count)?;
    for (at, sequence) in p.sequences.list.iter().enumerate() {
        let t = sequence.queries.len();
        for (kv_head, start) in (0..p.kv_heads).flat_map(|head| (0..t).step_by(step).map(move |i| (head, i)))
        {
            let queries = start..t.min(start + step);
            tiles.push(Tile {
                sequence: at,
                kv_head,
                keys: p.visible_keys(sequence, queries.clone()),
                queries,
            });
        }
    }
    Ok(tiles)
}

/// `lse[b, t, h]` as rows of one element, one per output row.
fn rows_of_one(lse: RawMut<'_>) -> Result<Rows<'_>> {
    let layout = lse.layout.unsqueeze(-1)?;
    report("attention", Rows::new(lse.with_layout(layout)))
}

/// The outputs that finished rows are written to.
struct Output<'a> {
    rows: Rows<'a>,
    /// Rows of one element.
    lse: Option<Rows<'a>>,
    dtype: DType,
}

impl Output<'_> {
    /// Adds the sinks to the totals, divides the sums by them and stores them, rounded once. A row without visible keys is zero.
    fn store(&self, p: &Problem<'_>, tile: &Tile, sums: &mut [f32], running: &[Running]) -> TaskResult {
        let mut own = Scratch::default();
        for (r, (sums, running)) in sums.chunks_exact_mut(p.dv).zip(running).enumerate() {
            let sink = p.sink(tile, r);
            let largest = if sink > running.largest || sink.is_nan() { sink } else { running.largest };
            let (kept, mut total) = (running.factor(largest), running.total);
            if largest != f32::NEG_INFINITY {
                total = total * kept + (sink - largest).exp();
            }
            let factor = if total == 0.0 { 0.0 } else { kept / total };
            sums.iter_mut().for_each(|s| *s *= factor);
            if let Some(lse) = &self.lse {
                let value = if total == 0.0 { f32::NEG_INFINITY } else { largest + total.ln() };
                lse.write(p.row_number(tile, r), &mut own, &mut |y| {
                    y.copy_from_slice(bytemuck::bytes_of(&value));
                    Ok(())
                })?;
            }
            self.rows.write(p.row_number(tile, r), &mut own, &mut |y| {
                on_vector!(self.dtype, T => {
                    Ok(ops_simd::cast(Isa::best(), sums, cast_slice_mut::<u8, T>(y), Store::Cached)?)
                }, else Err(unsupported_dtype(self.dtype)))
            })?;
        }
        Ok(())
    }
}

/// Rearranges an operand of `attention` so that tokens come before heads.
fn tokens_first(layout: &Layout) -> Result<Layout> {
    layout.transpose(1, 2)
}

impl<T: Float> Kernel<Attention<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Attention<T>, Host>) -> Result<()> {
        // Without features there is nothing to speed up, and empty rows have no pieces.
        if T::DTYPE == DType::F64 || call.args().q.layout().last() == 0 || call.args().v.layout().last() == 0
        {
            return Reference::new().compute(call);
        }
        let name = call.name();
        let (op, a) = call.into_parts();
        let (q, k, v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let &[batch, heads, t, d] = q.dims() else {
            return Err(Error::shape(name, "q", &q.layout, "[b, h, t, d]"));
        };
        if q.layout.is_empty() {
            return Ok(());
        }
        let (kv_heads, s) = (k.dims()[1], k.dims()[2]);
        let by_token = |x: Raw<'_>| tokens_first(&x.layout);
        let problem = Problem {
            op: name,
            q: q.with_layout(by_token(q)?),
            k: k.with_layout(by_token(k)?),
            v: v.with_layout(by_token(v)?),
            sequences: &Sequences::batch(batch, t, s)?,
            mask: Raw::any_if(&a.mask),
            alibi: Raw::any_if(&a.alibi),
            sinks: Raw::any_if(&a.sinks),
            scale: op.scale_for(d) as f32,
            softcap: op.softcap.map(|c| c as f32),
            visible: &|i, t, s| op.visible(i, t, s),
            heads,
            kv_heads,
            d,
            dv: v.layout.last(),
        };
        let o = RawMut::of(&mut a.o);
        let layout = tokens_first(&o.layout)?;
        let lse = a.lse.as_mut().map(RawMut::of).map(|lse| {
            let layout = tokens_first(&lse.layout)?;
            Ok::<_, Error>(lse.with_layout(layout))
        });
        attention(&problem, Split::of_call(), o.with_layout(layout), lse.transpose()?)
    }
    fn determinism(&self, _: &Attention<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
}

/// Attention of any element type with every key visible to every query, for tests.
#[cfg(test)]
pub(super) fn attend_to_all_keys(q: Raw<'_>, k: Raw<'_>, v: Raw<'_>, o: RawMut<'_>) -> Result<()> {
    let &[batch, heads, t, d] = q.dims() else { unreachable!("four axes") };
    let by_token = |x: Raw<'_>| tokens_first(&x.layout);
    let problem = Problem {
        op: "attention",
        q: q.with_layout(by_token(q)?),
        k: k.with_layout(by_token(k)?),
        v: v.with_layout(by_token(v)?),
        sequences: &Sequences::batch(batch, t, k.dims()[2])?,
        mask: None,
        alibi: None,
        sinks: None,
        scale: 1.0,
        softcap: None,
        visible: &|_, _, s| 0..s,
        heads,
        kv_heads: heads,
        d,
        dv: d,
    };
    let layout = tokens_first(&o.layout)?;
    attention(&problem, Split::ForThreads, o.with_layout(layout), None)
}
