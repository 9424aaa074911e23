//! One tile: a run of query rows of a group of heads, and a range of keys.
use super::super::matmul::gemm;
use super::super::rows::{Scratch, row};
use crate::host::raw::Raw;
use core::ops::Range;
use ops_core::{DType, Element};
use ops_simd::gemm::{Input, Mat, MatMut};
use ops_simd::rows::{Running, online_softmax};
use ops_simd::{Error, Isa, Store, Unary, unary_in_place};

/// Keys scored at a time.
pub(super) const TILE_KEYS: usize = 128;

/// Keys in a part, if a row's sums must not depend on the other rows: parts begin at multiples of it.
pub(super) const PART_KEYS: usize = 8 * TILE_KEYS;

/// The operands, options and extents of a call.
pub(super) struct Problem<'a> {
    pub(super) q: Raw<'a>,
    pub(super) k: Raw<'a>,
    pub(super) v: Raw<'a>,
    pub(super) mask: Option<Raw<'a>>,
    pub(super) alibi: Option<Raw<'a>>,
    pub(super) sinks: Option<Raw<'a>>,
    pub(super) scale: f32,
    pub(super) softcap: Option<f32>,
    pub(super) visible: &'a (dyn Fn(usize) -> Range<usize> + Sync),
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) t: usize,
    pub(super) s: usize,
    pub(super) d: usize,
    /// Width of the values.
    pub(super) dv: usize,
    /// Whether a row's sums must not depend on the other rows.
    pub(super) by_row: bool,
}

/// A unit of work: one group of heads, a run of queries, and all or part of the keys visible to them.
#[derive(Clone)]
pub(super) struct Tile {
    pub(super) batch: usize,
    pub(super) kv_head: usize,
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
}

impl Problem<'_> {
    pub(super) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }
    /// The query head and token of row `r` of a tile.
    fn row(&self, tile: &Tile, r: usize) -> (usize, usize) {
        let queries = tile.queries.len();
        (tile.kv_head * self.group() + r / queries, tile.queries.start + r % queries)
    }
    /// The row of `q`, and of the output, that row `r` of a tile corresponds to.
    pub(super) fn row_number(&self, tile: &Tile, r: usize) -> usize {
        let (h, i) = self.row(tile, r);
        (tile.batch * self.heads + h) * self.t + i
    }
    /// The range of keys visible to any of the queries.
    pub(super) fn visible_keys(&self, queries: Range<usize>) -> Range<usize> {
        let ranges = queries.map(|i| (self.visible)(i)).filter(|r| !r.is_empty());
        let all = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
        if self.by_row { all.start / TILE_KEYS * TILE_KEYS..all.end } else { all }
    }

    /// The sink of row `r` of a tile; −∞ if there are none.
    pub(super) fn sink(&self, tile: &Tile, r: usize) -> f32 {
        let sink = |x: &Raw<'_>| x.f64(x.layout.position(&[self.row(tile, r).0])) as f32;
        self.sinks.as_ref().map_or(f32::NEG_INFINITY, sink)
    }

    /// The keys or values of one head for the range `keys`, as a matrix over the operand's memory.
    fn kv<'m, T: Element>(x: &Raw<'m>, tile: &Tile, keys: &Range<usize>) -> Result<Mat<'m, T>, Error> {
        // Operands with negative strides were copied before the call was split into tiles.
        let backwards = Error::Bounds { operand: "keys", len: 0, need: usize::MAX };
        let [_, _, step, feature] = x.layout.strides() else { return Err(backwards) };
        let (Ok(step), Ok(feature)) = (usize::try_from(*step), usize::try_from(*feature)) else {
            return Err(backwards);
        };
        let first = x.layout.position(&[tile.batch, tile.kv_head, keys.start, 0]);
        Mat::new(&x.slice::<T>()[first..], keys.len(), x.layout.last(), step, feature)
    }

    /// Adds ALiBi and mask to a row of scores and sets the scores of invisible keys to -inf.
    fn bias(&self, tile: &Tile, (h, i): (usize, usize), keys: &Range<usize>, scores: &mut [f32]) {
        let visible = (self.visible)(i);
        let start = visible.start.clamp(keys.start, keys.end);
        let end = visible.end.clamp(start, keys.end);
        scores[..start - keys.start].fill(f32::NEG_INFINITY);
        scores[end - keys.start..].fill(f32::NEG_INFINITY);
        let scores = &mut scores[start - keys.start..end - keys.start];
        if let Some(slopes) = self.alibi {
            let slope = slopes.f64(slopes.layout.position(&[h])) as f32;
            let position = self.s as f32 - self.t as f32 + i as f32;
            for (j, score) in (start..end).zip(scores.iter_mut()) {
                *score += slope * (j as f32 - position);
            }
        }
        if let Some(mask) = self.mask.filter(|_| !scores.is_empty()) {
            let first = mask.layout.position(&[tile.batch, h, i, start]);
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
        let (mut factors, mut all) = (
            vec![1.0; rows],
            vec![0.0; rows * if self.by_row { TILE_KEYS } else { TILE_KEYS.min(tile.keys.len()) }],
        );
        for start in tile.keys.clone().step_by(TILE_KEYS) {
            let keys = start..tile.keys.end.min(start + TILE_KEYS);
            // Summed by row, a tile has the same length whatever the last key of the call is; the rest is invisible.
            let (seen, n) = (keys.len(), if self.by_row { TILE_KEYS } else { keys.len() });
            let scores = &mut all[..rows * n];
            let k = Self::kv::<T>(&self.k, tile, &keys)?.transposed();
            gemm(isa, q, k, MatMut::new(scores, rows, seen, n)?, false)?;
            if let Some(cap) = self.softcap {
                scores.iter_mut().for_each(|s| *s /= cap);
                unary_in_place(isa, Unary::Tanh, scores);
                scores.iter_mut().for_each(|s| *s *= cap);
            }
            for (r, scores) in scores.chunks_exact_mut(n).enumerate() {
                let (scores, rest) = scores.split_at_mut(seen);
                self.bias(tile, self.row(tile, r), &keys, scores);
                rest.fill(f32::NEG_INFINITY);
            }
            online_softmax(isa, scores, n, running, &mut factors)?;
            // A new maximum rescales the sums accumulated so far.
            for (o, factor) in o.chunks_exact_mut(dv).zip(&factors).filter(|(_, f)| **f != 1.0) {
                o.iter_mut().for_each(|o| *o *= factor);
            }
            let v = Self::kv::<T>(&self.v, tile, &keys)?;
            gemm(isa, Mat::new(scores, rows, seen, n, 1)?, v, MatMut::new(o, rows, dv, dv)?, true)?;
        }
        Ok(())
    }
}

/// Applies the mask's elements from position `first` on to a row of scores.
fn add_mask(mask: &Raw<'_>, first: usize, scores: &mut [f32]) {
    let step = mask.layout.strides()[3];
    let position = |j: usize| first.wrapping_add_signed(j as isize * step);
    let hide = |visible: u8, score: &mut f32| *score = if visible == 0 { f32::NEG_INFINITY } else { *score };
    match (mask.dtype, step) {
        (DType::U8, 1) => {
            let visible = &mask.slice::<u8>()[first..][..scores.len()];
            visible.iter().zip(scores).for_each(|(visible, score)| hide(*visible, score));
        }
        (DType::U8, _) => {
            let visible = mask.slice::<u8>();
            scores.iter_mut().enumerate().for_each(|(j, score)| hide(visible[position(j)], score));
        }
        (DType::F32, 1) => {
            let added = &mask.slice::<f32>()[first..][..scores.len()];
            scores.iter_mut().zip(added).for_each(|(score, added)| *score += added);
        }
        _ => {
            let add = |(j, score): (usize, &mut f32)| *score += mask.f64(position(j)) as f32;
            scores.iter_mut().enumerate().for_each(add);
        }
    }
}
