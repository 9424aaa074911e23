//! One tile: a run of query rows of a group of heads, and a range of keys.
use super::super::rows::{Scratch, row};
use super::mask::add_mask;
use crate::host::raw::Raw;
use crate::host::sequences::{Sequence, Sequences};
use core::ops::Range;
use ops_core::Element;
use ops_simd::gemm::{Input, Mat, MatMut, gemm};
use ops_simd::rows::{Running, online_softmax};
use ops_simd::{Error, Isa, Store, Unary, unary_in_place};

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
        ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    }

    /// The sink of row `r` of a tile; −∞ if there are none.
    pub(super) fn sink(&self, tile: &Tile, r: usize) -> f32 {
        let sink = |x: &Raw<'_>| x.f64(x.layout.position(&[self.row(tile, r).0])) as f32;
        self.sinks.as_ref().map_or(f32::NEG_INFINITY, sink)
    }

    /// The keys or values of one head for the range `keys`, as a matrix: in place if they are in one block, otherwise copied
    /// one after another. Nothing else of the blocks is read.
    fn kv<'m, T: Element>(
        &self,
        x: &Raw<'m>,
        tile: &Tile,
        keys: &Range<usize>,
        copy: &'m mut Vec<T>,
    ) -> Result<Mat<'m, T>, Error> {
        let [_, row_step, _, step] = *x.layout.strides() else {
            return Err(Error::Bounds { operand: "keys", len: 0, need: 4 });
        };
        let (width, data) = (x.layout.last(), x.slice::<T>());
        let runs = || self.sequences.runs(self.sequence(tile), keys.clone());
        let first = |[block, row]: [usize; 2]| x.layout.position(&[block, row, tile.kv_head, 0]);
        let is_one_block = runs().nth(1).is_none();
        if let (true, Ok(row_step), Ok(step)) =
            (is_one_block, usize::try_from(row_step), usize::try_from(step))
        {
            let start = runs().next().map_or(0, |(place, _)| first(place));
            return Mat::new(&data[start..], keys.len(), width, row_step, step);
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
        Mat::row_major(copy, keys.len(), width)
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

    /// Converts the query rows of a tile to f32 and scales them.
    fn queries<T: Input + ops_simd::Element>(&self, tile: &Tile, q: &mut [f32]) -> Result<(), Error> {
        let mut scratch = Scratch::default();
        for (r, q) in q.chunks_exact_mut(self.d).enumerate() {
            let x = row(&self.q, self.row_number(tile, r), &mut scratch);
            ops_simd::cast(Isa::best(), bytemuck::cast_slice::<u8, T>(x), q, Store::Cached)?;
            q.iter_mut().for_each(|q| *q *= self.scale);
        }
        Ok(())
    }

    /// Adds the weighted sums of values to `o[rows, dv]`, which must be zeroed, and updates the totals that they are divided
    /// by.
    pub(super) fn run<T: Input<Acc = f32> + Element + ops_simd::Element>(
        &self,
        tile: &Tile,
        o: &mut [f32],
        running: &mut [Running],
    ) -> Result<(), Error> {
        let (isa, d, dv, rows) = (Isa::best(), self.d, self.dv, running.len());
        let mut q = vec![0.0; rows * d];
        self.queries::<T>(tile, &mut q)?;
        let q = Mat::row_major(&q, rows, d)?;
        let (mut factors, mut all) = (vec![1.0; rows], vec![0.0; rows * TILE_KEYS.min(tile.keys.len())]);
        let mut copy = Vec::new();
        for keys in pieces(&tile.keys, TILE_KEYS) {
            let n = keys.len();
            let scores = &mut all[..rows * n];
            let k = self.kv::<T>(&self.k, tile, &keys, &mut copy)?.transposed();
            gemm(isa, q, k, MatMut::new(scores, rows, n, n)?, false)?;
            self.finish_scores(isa, tile, &keys, scores);
            online_softmax(isa, scores, n, running, &mut factors)?;
            // A new maximum rescales the sums accumulated so far.
            for (o, factor) in o.chunks_exact_mut(dv).zip(&factors).filter(|(_, f)| **f != 1.0) {
                o.iter_mut().for_each(|o| *o *= factor);
            }
            let v = self.kv::<T>(&self.v, tile, &keys, &mut copy)?;
            gemm(isa, Mat::row_major(scores, rows, n)?, v, MatMut::new(o, rows, dv, dv)?, true)?;
        }
        Ok(())
    }

    /// From scaled products to scores: the softcap, ALiBi, the mask and visibility.
    fn finish_scores(&self, isa: Isa, tile: &Tile, keys: &Range<usize>, scores: &mut [f32]) {
        if let Some(cap) = self.softcap {
            scores.iter_mut().for_each(|s| *s /= cap);
            unary_in_place(isa, Unary::Tanh, scores);
            scores.iter_mut().for_each(|s| *s *= cap);
        }
        for (r, scores) in scores.chunks_exact_mut(keys.len()).enumerate() {
            self.bias(tile, self.row(tile, r), keys, scores);
        }
    }
}

/// `range` in pieces that end at multiples of `step`.
pub(super) fn pieces(range: &Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *range;
    let first = if start < end { start / step * step } else { end };
    (first..end).step_by(step).map(move |piece| piece.max(start)..end.min(piece + step))
}
