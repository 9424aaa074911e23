//! Scaled dot-product attention in tiles. Keys and values are read in place, once for all query heads
//! of a group, and only one tile of scores per thread exists at a time.
//!
//! Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, "Online normalizer calculation for
//! softmax", 2018; Dao et al., "Flash-Decoding", 2023, for the split over keys.
use super::rows::{Rows, Scratch, packed, scratch};
use super::vectors::{TaskResult, on_vector, report, unsupported_dtype};
use super::{Cpu, threads};
use crate::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::cast_slice_mut;
use core::ops::Range;
use ops_core::ops::Attention;
use ops_core::{Call, DType, Determinism, Float, Operands, Result};
use ops_simd::rows::Running;
use ops_simd::{Isa, Store};
use tile::{PART_KEYS, Problem, TILE_KEYS, Tile};

mod tile;

/// Query rows per tile, counted over all heads of a group.
const TILE_QUERY_ROWS: usize = 64;
/// Multiplications that take about as long as accessing one element.
const MULTIPLICATIONS_PER_ELEMENT: usize = 8;

/// Splits the call into tiles by heads and queries, and also by keys if that gives too few.
fn attention(p: &Problem<'_>, batch: usize, o: RawMut<'_>, lse: Option<RawMut<'_>>) -> Result<()> {
    let queries = (TILE_QUERY_ROWS / p.group()).clamp(1, p.t);
    let runs = p.t.div_ceil(queries);
    let units = batch * p.kv_heads * runs;
    let tile = |unit: usize| {
        let start = unit % runs * queries;
        let queries = start..p.t.min(start + queries);
        let (batch, kv_head) = (unit / runs / p.kv_heads, unit / runs % p.kv_heads);
        Tile { batch, kv_head, keys: p.visible_keys(queries.clone()), queries }
    };
    let cost =
        (queries * p.group()).saturating_mul(p.s.saturating_mul(p.d + p.dv)) / MULTIPLICATIONS_PER_ELEMENT;
    let wanted = 2 * threads::count();
    let pieces = wanted
        .div_ceil(units)
        .min(p.s / (2 * TILE_KEYS))
        .min(units.saturating_mul(cost) / threads::MAX_SERIAL_ELEMENTS);
    let lse = lse.map(rows_of_one).transpose()?;
    let out = Output { rows: report("attention", Rows::new(o))?, lse, dtype: p.q.dtype };
    let few = units < wanted && pieces > 1 && threads::count() > 1;
    if p.by_row {
        let one = |unit: usize| split_keys(p, &tile(unit), PART_KEYS, few, &out);
        let small = units.saturating_mul(cost) <= threads::MAX_SERIAL_ELEMENTS;
        return match few || small {
            true => (0..units).try_for_each(one),
            false => threads::for_each_part((0..units).collect(), &one),
        };
    }
    if few {
        let step = |tile: &Tile| tile.keys.len().div_ceil(pieces).max(1).next_multiple_of(TILE_KEYS);
        let one = |tile: Tile| split_keys(p, &tile, step(&tile), true, &out);
        return (0..units).map(tile).try_for_each(one);
    }
    let done = threads::split(units, cost, &|units| {
        let (mut sums, mut running) = (Vec::new(), Vec::new());
        for tile in units.map(tile) {
            let rows = tile.queries.len() * p.group();
            sums.clear();
            running.clear();
            sums.resize(rows * p.dv, 0.0);
            running.resize(rows, Running::START);
            run_tile(p, &tile, &mut sums, &mut running)?;
            out.store(p, &tile, &mut sums, &running)?;
        }
        Ok(())
    });
    report("attention", done)
}

fn run_tile(p: &Problem<'_>, tile: &Tile, o: &mut [f32], running: &mut [Running]) -> TaskResult {
    on_vector!(p.q.dtype, T => Ok(p.run::<T>(tile, o, running)?), else Err(unsupported_dtype(p.q.dtype)))
}

/// Computes one tile by splitting its keys into parts of `step`, on threads or one after the other, then combines the partial
/// sums.
fn split_keys(p: &Problem<'_>, tile: &Tile, step: usize, threaded: bool, out: &Output<'_>) -> Result<()> {
    let rows = tile.queries.len() * p.group();
    // By row, parts begin at multiples of a step, wherever the first visible key is.
    let Range { start, end } = tile.keys;
    let second = if p.by_row { (start / step + 1) * step } else { start + step };
    let starts = (start..end.min(start + 1)).chain((second..end).step_by(step));
    let ranges: Vec<_> =
        starts.map(|from| from..end.min(if from == start { second } else { from + step })).collect();
    let mut sums = scratch::<f32>((ranges.len() + 1) * rows * p.dv)?;
    let (total, sums) = sums.as_mut_slice().split_at_mut(rows * p.dv);
    sums.fill(0.0);
    let mut running = vec![Running::START; ranges.len() * rows];
    let parts = ranges.iter().zip(sums.chunks_exact_mut(rows * p.dv)).zip(running.chunks_exact_mut(rows));
    let one = |((keys, o), running): ((&Range<usize>, &mut [f32]), &mut [Running])| {
        run_tile(p, &Tile { keys: keys.clone(), ..tile.clone() }, o, running)
    };
    let done = match threaded {
        true => threads::for_each_part(parts.collect(), &one),
        false => parts.into_iter().try_for_each(one),
    };
    report("attention", done)?;

    let mut all = vec![Running::START; rows];
    for (r, (all, total)) in all.iter_mut().zip(total.chunks_exact_mut(p.dv)).enumerate() {
        let parts = || running.chunks_exact(rows).map(|part| part[r]).zip(sums.chunks_exact(rows * p.dv));
        all.largest = parts().fold(f32::NEG_INFINITY, |m, (part, _)| m.max(part.largest));
        total.fill(0.0);
        for (part, sums) in parts() {
            let factor = part.factor(all.largest);
            all.total += factor * part.total;
            total.iter_mut().zip(&sums[r * p.dv..]).for_each(|(t, s)| *t += factor * s);
        }
    }
    report("attention", out.store(p, tile, total, &all))
}

/// `lse[b, h, t]` as rows of one element, one for each row of the output.
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

impl<T: Float> Kernel<Attention<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Attention<T>, Host>) -> Result<()> {
        // Without features there is nothing to be fast at, and rows of no elements have no pieces.
        if T::DTYPE == DType::F64 || call.args().q.layout().last() == 0 || call.args().v.layout().last() == 0
        {
            return Reference::new().compute(call);
        }
        let (op, a) = call.into_parts();
        let (q, mut k, mut v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let &[batch, heads, t, d] = q.dims() else {
            return Err(ops_core::Error::shape("attention", "q", &q.layout, "[b, h, t, d]"));
        };
        let (kv_heads, s) = (k.dims()[1], k.dims()[2]);
        if q.layout.is_empty() {
            return Ok(());
        }
        let backwards = |x: &Raw<'_>| x.layout.strides().iter().any(|s| *s < 0);
        let (packed_k, packed_v);
        if backwards(&k) || backwards(&v) {
            (packed_k, packed_v) = (packed::<T>(&k)?, packed::<T>(&v)?);
            let whole = |x: &Raw<'_>| ops_core::Layout::of(x.layout.shape());
            (k.bytes, k.layout) = (bytemuck::cast_slice(&packed_k), whole(&k));
            (v.bytes, v.layout) = (bytemuck::cast_slice(&packed_v), whole(&v));
        }
        let problem = Problem {
            q,
            k,
            v,
            mask: Raw::any_if(&a.mask),
            alibi: Raw::any_if(&a.alibi),
            sinks: Raw::any_if(&a.sinks),
            scale: op.scale_for(d) as f32,
            softcap: op.softcap.map(|c| c as f32),
            visible: &|i| op.visible(i, t, s),
            heads,
            kv_heads,
            t,
            s,
            d,
            dv: v.layout.last(),
            by_row: threads::by_row(),
        };
        attention(&problem, batch, RawMut::of(&mut a.o), a.lse.as_mut().map(RawMut::of))
    }
    fn determinism(&self, _: &Attention<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
}

/// Attention of any element type with every key visible to every query, for tests.
#[cfg(test)]
pub(super) fn attend_to_all_keys(q: Raw<'_>, k: Raw<'_>, v: Raw<'_>, o: RawMut<'_>) -> Result<()> {
    let &[batch, heads, t, d] = q.dims() else { unreachable!("four axes") };
    let s = k.dims()[2];
    let visible = |_: usize| 0..s;
    let problem = Problem {
        q,
        k,
        v,
        mask: None,
        alibi: None,
        sinks: None,
        scale: 1.0,
        softcap: None,
        visible: &visible,
        heads,
        kv_heads: heads,
        t,
        s,
        d,
        dv: d,
        by_row: false,
    };
    attention(&problem, batch, o, None)
}
