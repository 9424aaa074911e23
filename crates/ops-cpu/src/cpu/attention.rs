//! Scaled dot-product attention in tiles: keys and values are read in place, once for all query
//! heads of a group, and no more than a tile of scores exists at a time.
//!
//! Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, "Online normalizer calculation for
//! softmax", 2018.
use super::rows::packed;
use super::vectors::{on_vector, told};
use super::{Cpu, threads};
use crate::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use core::ops::Range;
use ops_core::ops::{Attention, AttentionArgs};
use ops_core::{DType, Element, Float, Mask, Result};
use ops_simd::gemm::{Input, Mat, MatMut, gemm};
use ops_simd::{Isa, Unary, unary_in_place};
use std::sync::Mutex;

/// Query rows of a tile, all heads of a group counted.
const ROWS: usize = 64;
/// Keys of a tile.
const KEYS: usize = 128;

/// A call: operands, options, extents.
struct Problem<'a> {
    q: Raw<'a>,
    k: Raw<'a>,
    v: Raw<'a>,
    mask: Option<Raw<'a>>,
    alibi: Option<Raw<'a>>,
    scale: f32,
    softcap: Option<f32>,
    visible: &'a (dyn Fn(usize) -> Range<usize> + Sync),
    heads: usize,
    kv_heads: usize,
    t: usize,
    s: usize,
    d: usize,
}

/// A piece of work: one group of heads, a run of queries.
struct Tile {
    batch: usize,
    kv_head: usize,
    queries: Range<usize>,
}

impl Problem<'_> {
    fn group(&self) -> usize {
        self.heads / self.kv_heads
    }
    /// The query head and token of a row of a tile.
    fn row(&self, tile: &Tile, r: usize) -> (usize, usize) {
        let queries = tile.queries.len();
        (tile.kv_head * self.group() + r / queries, tile.queries.start + r % queries)
    }

    /// The keys or values of one head, from `keys.start` on, as a matrix over the memory they stand in.
    fn kv<'m, T: Element>(&self, x: &Raw<'m>, tile: &Tile, keys: &Range<usize>) -> Option<Mat<'m, T>> {
        let [_, _, step, feature] = *x.layout.strides() else { return None };
        let (step, feature) = (usize::try_from(step).ok()?, usize::try_from(feature).ok()?);
        let first = x.layout.position(&[tile.batch, tile.kv_head, keys.start, 0]);
        Mat::new(&x.slice::<T>()[first..], keys.len(), self.d, step, feature).ok()
    }

    /// Adds alibi and mask to a row of scores and hides what the query does not see.
    fn bias(&self, tile: &Tile, (h, i): (usize, usize), keys: &Range<usize>, scores: &mut [f32]) {
        let visible = (self.visible)(i);
        let slope = self.alibi.map(|x| x.f64(x.layout.position(&[h])) as f32);
        let position = self.s as f32 - self.t as f32 + i as f32;
        for (j, score) in keys.clone().zip(scores) {
            if !visible.contains(&j) {
                *score = f32::NEG_INFINITY;
                continue;
            }
            if let Some(slope) = slope {
                *score += slope * (j as f32 - position);
            }
            if let Some(mask) = self.mask {
                let value = mask.f64(mask.layout.position(&[tile.batch, h, i, j])) as f32;
                match (mask.dtype == DType::U8, value == 0.0) {
                    (false, _) => *score += value,
                    (true, true) => *score = f32::NEG_INFINITY,
                    (true, false) => {}
                }
            }
        }
    }

    /// One tile, into `o[rows, d]`.
    fn run<T: Input<Acc = f32> + Element>(&self, tile: &Tile, o: &mut [f32]) -> Result<(), ops_simd::Error> {
        let (isa, d, rows) = (Isa::best(), self.d, tile.queries.len() * self.group());
        let mut q = vec![0.0; rows * d];
        for (r, q) in q.chunks_exact_mut(d.max(1)).enumerate() {
            let (h, i) = self.row(tile, r);
            let (first, step) = (self.q.layout.position(&[tile.batch, h, i, 0]), self.q.layout.strides()[3]);
            for (f, q) in q.iter_mut().enumerate() {
                *q = self.q.f64(first.wrapping_add_signed(step * f as isize)) as f32 * self.scale;
            }
        }
        let seen = tile.queries.clone().map(|i| (self.visible)(i)).filter(|r| !r.is_empty());
        let seen = seen.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
        let (mut max, mut total) = (vec![f32::NEG_INFINITY; rows], vec![0.0f32; rows]);
        let mut tile_scores = vec![0.0; rows * KEYS];
        o.fill(0.0);

        for start in seen.clone().step_by(KEYS) {
            let keys = start..seen.end.min(start + KEYS);
            let n = keys.len();
            let scores = &mut tile_scores[..rows * n];
            let q = Mat::row_major(&q, rows, d)?;
            match self.kv::<T>(&self.k, tile, &keys) {
                Some(k) => gemm(isa, q, k.transposed(), MatMut::new(scores, rows, n, n)?, false)?,
                None => return Err(negative()),
            }
            if let Some(cap) = self.softcap {
                scores.iter_mut().for_each(|s| *s /= cap);
                unary_in_place(isa, Unary::Tanh, scores);
                scores.iter_mut().for_each(|s| *s *= cap);
            }
            for (r, scores) in scores.chunks_exact_mut(n).enumerate() {
                self.bias(tile, self.row(tile, r), &keys, scores);
                let mut here = [0.0];
                ops_simd::rows::max(isa, scores, n, &mut here)?;
                let largest = if here[0].is_nan() || here[0] > max[r] { here[0] } else { max[r] };
                if largest == f32::NEG_INFINITY {
                    // Nothing seen yet: weights of zero.
                    scores.fill(0.0);
                    continue;
                }
                // A new maximum rescales what has been summed so far.
                if largest != max[r] {
                    let shrink = (max[r] - largest).exp();
                    total[r] *= shrink;
                    o[r * d..][..d].iter_mut().for_each(|o| *o *= shrink);
                    max[r] = largest;
                }
                scores.iter_mut().for_each(|s| *s -= max[r]);
                unary_in_place(isa, Unary::Exp, scores);
                let mut sum = [0.0];
                ops_simd::rows::sum(isa, scores, n, &mut sum)?;
                total[r] += sum[0];
            }
            match self.kv::<T>(&self.v, tile, &keys) {
                Some(v) => gemm(isa, Mat::row_major(scores, rows, n)?, v, MatMut::new(o, rows, d, d)?, true)?,
                None => return Err(negative()),
            }
        }
        for (r, o) in o.chunks_exact_mut(d.max(1)).enumerate() {
            let factor = if max[r] == f32::NEG_INFINITY { 0.0 } else { 1.0 / total[r] };
            o.iter_mut().for_each(|o| *o *= factor);
        }
        Ok(())
    }
}

/// Strides that point backwards are packed away before tiles are cut.
fn negative() -> ops_simd::Error {
    ops_simd::Error::Bounds { operand: "keys", len: 0, need: usize::MAX }
}

/// Cuts the call into tiles and stores what they give.
fn attention(p: &Problem<'_>, batch: usize, o: RawMut<'_>) -> Result<()> {
    let layout = o.layout;
    let queries = (ROWS / p.group().max(1)).clamp(1, p.t.max(1));
    let runs = p.t.div_ceil(queries);
    let (out, failed) = (Mutex::new(o), Mutex::new(Ok(())));
    let cost = queries * p.group() * p.s.saturating_mul(2 * p.d);
    threads::split(batch * p.kv_heads * runs, cost, &|units| {
        let mut sums = Vec::new();
        for unit in units {
            let start = unit % runs * queries;
            let (batch, kv_head) = (unit / runs / p.kv_heads, unit / runs % p.kv_heads);
            let tile = Tile { batch, kv_head, queries: start..p.t.min(start + queries) };
            sums.resize(tile.queries.len() * p.group() * p.d, 0.0);
            let done = on_vector!(p.q.dtype, T => p.run::<T>(&tile, &mut sums), else Ok(()));
            if let Err(e) = done {
                *failed.lock().unwrap_or_else(|e| e.into_inner()) = Err(e);
                return;
            }
            let mut out = out.lock().unwrap_or_else(|e| e.into_inner());
            for (r, sums) in sums.chunks_exact(p.d.max(1)).enumerate() {
                let (h, i) = p.row(&tile, r);
                let (first, step) = (layout.position(&[batch, h, i, 0]), layout.strides()[3]);
                let positions = (0..p.d).map(|f| first.wrapping_add_signed(step * f as isize));
                out.scatter(positions, sums.iter().map(|v| f64::from(*v)));
            }
        }
    });
    told("attention", failed.into_inner().unwrap_or_else(|e| e.into_inner()))
}

impl<T: Float, M: Mask> Kernel<Attention<T, M>> for Cpu {
    fn compute(&self, op: &Attention<T, M>, a: &mut AttentionArgs<'_, Host, T, M>) -> Result<()> {
        let (q, mut k, mut v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let &[batch, heads, t, d] = q.dims() else { return Ok(()) };
        let (kv_heads, s) = (k.dims()[1], k.dims()[2]);
        if q.layout.is_empty() {
            return Ok(());
        }
        if T::DTYPE == DType::F64 {
            return Kernel::compute(&Reference::new(), op, a);
        }
        let backwards = |x: &Raw<'_>| x.layout.strides().iter().any(|s| *s < 0);
        let (packed_k, packed_v);
        if backwards(&k) || backwards(&v) {
            (packed_k, packed_v) = (packed::<T>(&k)?, packed::<T>(&v)?);
            let whole = ops_core::Layout::of(k.layout.shape());
            (k.bytes, k.layout) = (bytemuck::cast_slice(&packed_k), whole);
            (v.bytes, v.layout) = (bytemuck::cast_slice(&packed_v), whole);
        }
        let problem = Problem {
            q,
            k,
            v,
            mask: Raw::optional(&a.mask),
            alibi: Raw::optional(&a.alibi),
            scale: op.scale_for(d) as f32,
            softcap: op.softcap.map(|c| c as f32),
            visible: &|i| op.visible(i, t, s),
            heads,
            kv_heads,
            t,
            s,
            d,
        };
        attention(&problem, batch, RawMut::of(&mut a.o))
    }
}
