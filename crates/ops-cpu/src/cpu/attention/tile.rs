//! One tile: a run of query rows of a group of heads, and a range of keys.
use super::super::rows::{Scratch, row};
use super::super::threads;
use super::mask::add_mask;
use super::products::{Products, may_have_unseen};
use crate::host::raw::Raw;
use crate::host::sequences::{Sequence, Sequences};
use core::ops::Range;
use ops_core::Element;
use ops_simd::gemm::{Input, Mat, MatMut};
use ops_simd::rows::{Running, online_softmax};
use ops_simd::{Error, Isa, Unary, unary_in_place};

/// Keys scored at a time. Tiles end at multiples of it.
pub(super) const TILE_KEYS: usize = 128;

/// The operands, options and extents of a call. Rows of queries are counted over the first two axes of `q`.
pub(super) struct Problem<'a> {
    pub(super) op: &'static str,
    /// `[b, t, h, d]`
    pub(super) q: Raw<'a>,
    /// `[blocks, block, h_kv, d]`
    pub(super) k: Raw<'a>,
    /// `[blocks, block, h_kv, dv]`
    pub(super) v: Raw<'a>,
    pub(super) sequences: &'a Sequences,
    /// `[b, h, t, s]`
    pub(super) mask: Option<Raw<'a>>,
    pub(super) alibi: Option<Raw<'a>>,
    pub(super) sinks: Option<Raw<'a>>,
    pub(super) scale: f32,
    pub(super) softcap: Option<f32>,
    /// The keys that query `i` of `t` may see among `s`.
    pub(super) visible: &'a (dyn Fn(usize, usize, usize) -> Range<usize> + Sync),
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) d: usize,
    /// Width of the values.
    pub(super) dv: usize,
}

/// A unit of work: one group of heads, a run of queries of a sequence, and all or part of the keys visible to them.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub(super) sequence: usize,
    pub(super) kv_head: usize,
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
}

/// Which values a row's weights are multiplied by.
#[derive(Clone, Copy, PartialEq)]
enum Values {
    /// Those of all keys of the tile; those that the row does not see have weights of 0.
    All,
    /// Those that the row sees.
    Seen,
}

/// Receives keys or values and their positions in a range.
type Each<'f, T> = &'f mut dyn FnMut(Range<usize>, Mat<'_, T>) -> Result<(), Error>;

impl Problem<'_> {
    pub(super) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }
    /// Rows of a tile: its queries, for every head of the group.
    pub(super) fn rows(&self, tile: &Tile) -> usize {
        tile.queries.len() * self.group()
    }
    fn sequence(&self, tile: &Tile) -> &Sequence {
        &self.sequences.list[tile.sequence]
    }
    /// The query head and the query of row `r` of a tile.
    fn row(&self, tile: &Tile, r: usize) -> (usize, usize) {
        let queries = tile.queries.len();
        (tile.kv_head * self.group() + r / queries, tile.queries.start + r % queries)
    }
    /// The row of `q`, and of the output, that row `r` of a tile corresponds to.
    pub(super) fn row_number(&self, tile: &Tile, r: usize) -> usize {
        let (h, i) = self.row(tile, r);
        (self.sequence(tile).queries.start + i) * self.heads + h
    }
    /// The keys that query `i` of a sequence may see.
    fn visible_to(&self, sequence: &Sequence, i: usize) -> Range<usize> {
        (self.visible)(i, sequence.queries.len(), sequence.keys)
    }
    /// The range of keys visible to any of the queries.
    pub(super) fn visible_keys(&self, sequence: &Sequence, queries: Range<usize>) -> Range<usize> {
        let ranges = queries.map(|i| self.visible_to(sequence, i)).filter(|r| !r.is_empty());
        let all = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
        if threads::by_row() { all.start / TILE_KEYS * TILE_KEYS..all.end } else { all }
    }

    /// The sink of row `r` of a tile; −∞ if there are none.
    pub(super) fn sink(&self, tile: &Tile, r: usize) -> f32 {
        let sink = |x: &Raw<'_>| x.f64(x.layout.position(&[self.row(tile, r).0])) as f32;
        self.sinks.as_ref().map_or(f32::NEG_INFINITY, sink)
    }

    /// Passes the keys or values of one head for the range `keys` to `each` as matrices, with their positions
    /// in the range: in place if blocks have `min_run` rows, otherwise copied into consecutive rows. Nothing
    /// else of the blocks is read.
    fn each_block<T: Element>(
        &self,
        (x, min_run): (&Raw<'_>, usize),
        tile: &Tile,
        keys: &Range<usize>,
        copy: &mut Vec<T>,
        each: Each<'_, T>,
    ) -> Result<(), Error> {
        let [_, row_step, _, step] = *x.layout.strides() else {
            return Err(Error::Bounds { operand: "keys", len: 0, need: 4 });
        };
        let (width, data) = (x.layout.last(), x.slice::<T>());
        let runs = || self.sequences.runs(self.sequence(tile), keys.clone());
        let first = |[block, row]: [usize; 2]| x.layout.position(&[block, row, tile.kv_head, 0]);
        let is_long = self.sequences.block >= min_run || runs().nth(1).is_none();
        if let (true, Ok(row_step), Ok(step)) = (is_long, usize::try_from(row_step), usize::try_from(step)) {
            return runs().try_for_each(|(place, run)| {
                let part = Mat::new(&data[first(place)..], run.len(), width, row_step, step)?;
                each(run.start - keys.start..run.end - keys.start, part)
            });
        }
        copy.clear();
        for (place, run) in runs() {
            for j in 0..run.len() {
                let start = first(place).wrapping_add_signed(j as isize * row_step);
                if step == 1 {
                    copy.extend_from_slice(&data[start..][..width]);
                } else {
                    copy.extend((0..width).map(|e| data[start.wrapping_add_signed(e as isize * step)]));
                }
            }
        }
        each(0..keys.len(), Mat::row_major(copy, keys.len(), width)?)
    }

    /// Adds ALiBi and mask to a row of scores and sets the scores of invisible keys to -inf.
    fn bias(&self, tile: &Tile, (h, i): (usize, usize), keys: &Range<usize>, scores: &mut [f32]) {
        let sequence = self.sequence(tile);
        let visible = self.visible_to(sequence, i);
        let start = visible.start.clamp(keys.start, keys.end);
        let end = visible.end.clamp(start, keys.end);
        scores[..start - keys.start].fill(f32::NEG_INFINITY);
        scores[end - keys.start..].fill(f32::NEG_INFINITY);
        let scores = &mut scores[start - keys.start..end - keys.start];
        if let Some(slopes) = self.alibi {
            let slope = slopes.f64(slopes.layout.position(&[h])) as f32;
            let position = sequence.keys as f32 - sequence.queries.len() as f32 + i as f32;
            for (j, score) in (start..end).zip(scores.iter_mut()) {
                *score += slope * (j as f32 - position);
            }
        }
        if let Some(mask) = self.mask.filter(|_| !scores.is_empty()) {
            let first = mask.layout.position(&[tile.sequence, h, i, start]);
            add_mask(&mask, first, scores);
        }
    }

    /// The query rows of a tile, consecutively.
    fn queries<T: Element>(&self, tile: &Tile, rows: usize) -> Vec<T> {
        let (mut scratch, mut q) = (Scratch::default(), Vec::with_capacity(rows * self.d));
        for r in 0..rows {
            let x = row(&self.q, self.row_number(tile, r), &mut scratch);
            q.extend_from_slice(bytemuck::cast_slice::<u8, T>(x));
        }
        q
    }

    /// Adds the weighted sums of values to `o[rows, dv]`, which must be zeroed, and updates the totals by
    /// which they are later divided.
    pub(super) fn run<T: Input<Acc = f32> + Element + ops_simd::Element>(
        &self,
        tile: &Tile,
        o: &mut [f32],
        running: &mut [Running],
    ) -> Result<(), Error> {
        let (isa, rows) = (Isa::best(), running.len());
        let q = self.queries::<T>(tile, rows);
        let contiguous = [&self.k, &self.v].iter().all(|x| x.layout.is_last_contiguous());
        let q = Mat::row_major(&q, rows, self.d)?;
        let products = Products::new(isa, q, self.scale, self.dv, contiguous)?;
        self.run_with(&products, tile, o, running, Values::All)?;
        let values = if may_have_unseen(o, self.dv, running) { Values::Seen } else { Values::All };
        if values == Values::Seen || products.may_be_flushed(o, self.dv, running) {
            o.fill(0.0);
            running.fill(Running::START);
            self.run_with(&products.without_pairs()?, tile, o, running, values)?;
        }
        Ok(())
    }

    fn run_with<T: Input<Acc = f32> + Element + ops_simd::Element>(
        &self,
        products: &Products<'_, T>,
        tile: &Tile,
        o: &mut [f32],
        running: &mut [Running],
        values: Values,
    ) -> Result<(), Error> {
        let (isa, dv, rows) = (Isa::best(), self.dv, running.len());
        let by_row = threads::by_row();
        let longest = if by_row { TILE_KEYS } else { TILE_KEYS.min(tile.keys.len()) };
        let (mut factors, mut all) = (vec![1.0; rows], vec![0.0; rows * longest]);
        let (mut copy, mut narrow, min_run) = (Vec::new(), Vec::new(), products.min_run());
        let mut seen = Vec::new();
        for keys in pieces(&tile.keys, TILE_KEYS) {
            // When summing by row, a piece has the same length whatever the call's last key is; the rest is invisible.
            let n = if by_row { TILE_KEYS } else { keys.len() };
            let scores = &mut all[..rows * n];
            self.each_block::<T>((&self.k, min_run), tile, &keys, &mut copy, &mut |at, k| {
                products.scores(k, MatMut::new(&mut scores[at.start..], rows, at.len(), n)?)
            })?;
            self.finish_scores(isa, tile, &keys, scores, n);
            if values == Values::Seen {
                seen.clear();
                seen.extend(scores.iter().map(|score| *score != f32::NEG_INFINITY));
            }
            online_softmax(isa, scores, n, running, &mut factors)?;
            // A new maximum rescales the sums accumulated so far.
            for (o, factor) in o.chunks_exact_mut(dv).zip(&factors).filter(|(_, f)| **f != 1.0) {
                o.iter_mut().for_each(|o| *o *= factor);
            }
            let weights = products.weights(scores, n, &mut narrow)?;
            self.each_block::<T>((&self.v, min_run), tile, &keys, &mut copy, &mut |at, v| {
                let o = MatMut::new(o, rows, dv, dv)?;
                match values {
                    Values::All => weights.add_sums(at, v, o),
                    Values::Seen => weights.add_sums_of_seen(at, v, o, &seen),
                }
            })?;
        }
        Ok(())
    }

    /// Converts scaled products to scores: applies the softcap, ALiBi, the mask and visibility. A row has `n`
    /// scores; those beyond the keys are invisible.
    fn finish_scores(&self, isa: Isa, tile: &Tile, keys: &Range<usize>, scores: &mut [f32], n: usize) {
        if let Some(cap) = self.softcap {
            scores.iter_mut().for_each(|s| *s /= cap);
            unary_in_place(isa, Unary::Tanh, scores);
            scores.iter_mut().for_each(|s| *s *= cap);
        }
        for (r, scores) in scores.chunks_exact_mut(n).enumerate() {
            let (scores, rest) = scores.split_at_mut(keys.len());
            self.bias(tile, self.row(tile, r), keys, scores);
            rest.fill(f32::NEG_INFINITY);
        }
    }
}

/// `range` in pieces that end at multiples of `step`.
pub(super) fn pieces(range: &Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *range;
    let first = if start < end { start / step * step } else { end };
    (first..end).step_by(step).map(move |piece| piece.max(start)..end.min(piece + step))
}
