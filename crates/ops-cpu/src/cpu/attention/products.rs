//! The two products of a tile: queries by keys, and weights by values.
use super::super::product::gemm;
use super::super::threads;
use bytemuck::Pod;
use core::ops::Range;
use ops_core::bf16;
use ops_simd::gemm::{FewBf16, Input, Mat, MatMut, Operand};
use ops_simd::rows::Running;
use ops_simd::{Error, Isa, Store};

/// From this number of features and values on, products use pairs of bf16. Weights are then rounded to bf16,
/// and outputs must have some width for these errors to average out.
const MIN_WIDTH: usize = 32;
/// If the largest sum of a row is at least this, values flushed to zero are below the precision of the sums.
const MIN_PRECISE_SUM: f32 = 1.0 / (1u128 << 64) as f32;

/// The largest magnitude; NaN if there is one.
fn largest_magnitude(o: &[f32]) -> f32 {
    // Compared as integers, magnitudes sort as numbers do, and every NaN sorts after infinity.
    f32::from_bits(o.iter().fold(0, |most, x| most.max(x.abs().to_bits())))
}

/// Whether a value that a row does not see may have reached its sums: they are not finite, and the weights are numbers. A weight
/// of 0 does not keep out infinity and NaN.
pub(super) fn may_have_unseen(o: &[f32], width: usize, running: &[Running]) -> bool {
    let is_clean =
        |(o, running): (&[f32], &Running)| largest_magnitude(o).is_finite() || running.total.is_nan();
    !o.chunks_exact(width).zip(running).all(is_clean)
}

/// The queries of a tile, and how they are multiplied.
pub(super) struct Products<'q, T> {
    isa: Isa,
    q: Mat<'q, T>,
    scale: f32,
    /// The scaled queries in f32, unless pairs are multiplied.
    wide: Vec<f32>,
    pairs: Option<FewBf16>,
}

impl<'q, T: Input<Acc = f32> + ops_simd::Element> Products<'q, T> {
    /// For consecutive queries and values of `width`. Pairs require keys and values with contiguous features.
    pub(super) fn new(
        isa: Isa,
        q: Mat<'q, T>,
        scale: f32,
        width: usize,
        contiguous: bool,
    ) -> Result<Self, Error> {
        // Whether products are repeated in f32 depends on all rows of a tile.
        let is_for_pairs = contiguous
            && !threads::by_row()
            && matches!(T::operand(q), Operand::Bf16(_))
            && q.rows() <= FewBf16::MAX_ROWS
            && q.cols().min(width) >= MIN_WIDTH;
        match FewBf16::detect(isa).filter(|_| is_for_pairs) {
            Some(pairs) => Ok(Products { isa, q, scale, wide: Vec::new(), pairs: Some(pairs) }),
            None => Self::precise(isa, q, scale),
        }
    }

    /// In f32.
    fn precise(isa: Isa, q: Mat<'q, T>, scale: f32) -> Result<Self, Error> {
        let mut wide = vec![0.0; q.rows() * q.cols()];
        for (i, wide) in wide.chunks_exact_mut(q.cols()).enumerate() {
            ops_simd::cast(isa, q.row(i).unwrap_or(&[]), wide, Store::Cached)?;
            wide.iter_mut().for_each(|q| *q *= scale);
        }
        Ok(Products { isa, q, scale, wide, pairs: None })
    }

    /// Whether pairs may have flushed values to zero that matter for these results.
    pub(super) fn may_be_flushed(&self, o: &[f32], width: usize, running: &[Running]) -> bool {
        let is_precise = |(o, running): (&[f32], &Running)| {
            let largest = largest_magnitude(o);
            running.total == 0.0 || largest.is_finite() && largest >= MIN_PRECISE_SUM
        };
        self.pairs.is_some() && !o.chunks_exact(width).zip(running).all(is_precise)
    }

    /// The same products in f32.
    pub(super) fn without_pairs(&self) -> Result<Self, Error> {
        Self::precise(self.isa, self.q, self.scale)
    }

    /// Keys in blocks of fewer rows are copied, because products of short matrices take longer.
    pub(super) fn min_run(&self) -> usize {
        if self.pairs.is_some() { 8 } else { 32 }
    }

    /// The scaled products with some keys.
    pub(super) fn scores(&self, k: Mat<'_, T>, mut scores: MatMut<'_, f32>) -> Result<(), Error> {
        if let (Some(pairs), Operand::Bf16(q), Operand::Bf16(k)) =
            (self.pairs, T::operand(self.q), T::operand(k))
        {
            pairs.dots(q, k, scores.reborrow())?;
            let scale = self.scale;
            (0..q.rows()).for_each(|r| scores.row_mut(r).iter_mut().for_each(|score| *score *= scale));
            return Ok(());
        }
        gemm(
            self.isa,
            Mat::row_major(&self.wide, self.q.rows(), self.q.cols())?,
            k.transposed(),
            scores,
            false,
        )
    }

    /// Weights, `n` per query, in the form in which they are multiplied by values. `narrow` is their memory
    /// in bf16.
    pub(super) fn weights<'w>(
        &self,
        weights: &'w [f32],
        n: usize,
        narrow: &'w mut Vec<bf16>,
    ) -> Result<Weights<'w>, Error> {
        if self.pairs.is_some() {
            narrow.resize(weights.len(), bf16::ZERO);
            ops_simd::cast(self.isa, weights, narrow, Store::Cached)?;
        }
        Ok(Weights { isa: self.isa, rows: self.q.rows(), n, weights, narrow, pairs: self.pairs })
    }
}

/// The weights of some values, for every query.
pub(super) struct Weights<'w> {
    isa: Isa,
    rows: usize,
    n: usize,
    weights: &'w [f32],
    narrow: &'w [bf16],
    pairs: Option<FewBf16>,
}

impl Weights<'_> {
    /// Adds the sums of the values `v`, which are at positions `at` among those that have weights.
    // Not inlined: with two copies of the product, that of a few keys took twice as long.
    #[inline(never)]
    pub(super) fn add_sums<T: Input<Acc = f32>>(
        &self,
        at: Range<usize>,
        v: Mat<'_, T>,
        o: MatMut<'_, f32>,
    ) -> Result<(), Error> {
        if let (Some(pairs), Operand::Bf16(v)) = (self.pairs, T::operand(v)) {
            return pairs.sums(Mat::new(&self.narrow[at.start..], self.rows, at.len(), self.n, 1)?, v, o);
        }
        gemm(self.isa, Mat::new(&self.weights[at.start..], self.rows, at.len(), self.n, 1)?, v, o, true)
    }

    /// As [`add_sums`](Self::add_sums), without the values that a row does not see: `seen` has a flag per weight. Every row has its
    /// own product, with these values replaced by 0, so that the sums have the same bits as if they had been 0.
    pub(super) fn add_sums_of_seen<T: Input<Acc = f32> + Pod>(
        &self,
        at: Range<usize>,
        v: Mat<'_, T>,
        mut o: MatMut<'_, f32>,
        seen: &[bool],
    ) -> Result<(), Error> {
        let (n, width, mut values) = (at.len(), v.cols(), Vec::new());
        for r in 0..self.rows {
            let first = r * self.n + at.start;
            values.clear();
            for (j, is_seen) in seen[first..][..n].iter().enumerate() {
                match v.row(j).filter(|_| *is_seen) {
                    Some(row) => values.extend_from_slice(row),
                    None => {
                        let value = |e| v.get(j, e).filter(|_| *is_seen).unwrap_or_else(T::zeroed);
                        values.extend((0..width).map(value));
                    }
                }
            }
            let row = Weights { rows: 1, weights: &self.weights[first..], pairs: None, ..*self };
            let o = MatMut::new(o.row_mut(r), 1, width, width)?;
            row.add_sums(0..n, Mat::row_major(&values, n, width)?, o)?;
        }
        Ok(())
    }
}
