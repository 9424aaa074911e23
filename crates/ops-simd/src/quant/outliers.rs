//! Outliers: activations far above the others of their row, which are not rounded.
//!
//! One scale serves a block of 32, so one large number leaves few of the eight bits to the others. When a row is quantized, its
//! outliers are set aside and their codes are 0. Their products with the columns of the weight are added in f32, as in LLM.int8()
//! (<https://arxiv.org/abs/2208.07339>). At most one number in 64 can be an outlier.

use std::ops::Range;

use super::blocks::BLOCK;
use crate::element::Element;
use crate::gemm::MatMut;
use crate::isa::Isa;
use crate::scratch::Scratch;
use crate::simd::{MAX_LANES, Simd, VectorFn};

/// What becomes of outliers when a row is quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outliers {
    /// They are rounded like other numbers.
    Rounded,
    /// They are set aside, if their magnitude exceeds eight times the root mean square of their row.
    SetAside,
}

/// See [`Outliers::SetAside`].
const FACTOR: f32 = 8.0;
/// Rows with a smaller mean of squares have no outliers: squares may have underflowed.
const MIN_MEAN: f32 = 1e-30;

/// A number that was set aside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlier {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) value: f32,
}

/// The magnitude above which a number of this row is an outlier. Infinite, so that none is, if a number or the sum of squares is not
/// finite, or the mean is below [`MIN_MEAN`].
#[inline(always)]
pub(super) fn limit<S: Simd, T: Element>(s: S, row: &[T]) -> f32 {
    // Several sums, so that they need not wait for each other.
    let mut sums = [s.splat(0.0); 4];
    let mut add = |x: &[T]| {
        for (sum, x) in sums.iter_mut().zip(x.chunks_exact(S::LANES)) {
            let x = T::load(s, x);
            *sum = s.mul_add(x, x, *sum);
        }
    };
    let parts = row.chunks_exact(4 * S::LANES);
    let rest = parts.remainder();
    parts.for_each(&mut add);
    add(rest);
    let [a, b, c, d] = sums;
    let mean = s.reduce_add(s.add(s.add(a, b), s.add(c, d))) / row.len() as f32;
    if mean > MIN_MEAN { FACTOR * mean.sqrt() } else { f32::INFINITY }
}

/// Moves the outliers of block `b` of a row to `to`. Returns the other numbers, with zeros in their place.
#[inline(always)]
pub(super) fn set_aside<T: Element>(
    x: &[T],
    (row, b): (usize, usize),
    limit: f32,
    to: &mut Vec<Outlier>,
) -> [f32; BLOCK] {
    let mut rest = [0.0; BLOCK];
    rest.iter_mut().zip(x).for_each(|(rest, x)| *rest = x.to_f32());
    let mut large = [0u8; BLOCK];
    large.iter_mut().zip(&rest).for_each(|(large, x)| *large = u8::from(x.abs() > limit));
    // The product moves the bits of eight bytes, one for each number, to the highest byte.
    let bits = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let mut large = large.as_chunks().0.iter().rev().fold(0, |all, bytes| all << 8 | bits(bytes));
    while large != 0 {
        let c = large.trailing_zeros() as usize;
        to.push(Outlier { row, column: b * BLOCK + c, value: rest[c] });
        rest[c] = 0.0;
        large &= large - 1;
    }
    rest
}

/// All outliers of some rows.
#[derive(Clone, Debug, Default)]
pub(super) struct ByRow {
    /// The columns that have outliers, in order.
    columns: Vec<usize>,
    /// The rows that have outliers, in order, and which of `values` are theirs.
    rows: Vec<(usize, Range<usize>)>,
    /// Where `columns` has its column, and the number itself.
    values: Vec<(usize, f32)>,
}

impl ByRow {
    /// Of outliers in the order of rows and, within a row, of columns, which are below `k`.
    pub(super) fn new<'a>(outliers: impl Iterator<Item = &'a Outlier> + Clone, k: usize) -> Self {
        if outliers.clone().next().is_none() {
            return Self::default();
        }
        // A bit for each column, and how many are set in the words before.
        let mut words = vec![(0u64, 0usize); k.div_ceil(64)];
        outliers.clone().for_each(|outlier| words[outlier.column / 64].0 |= 1 << (outlier.column % 64));
        let mut all = Self::default();
        for (w, (word, before)) in words.iter_mut().enumerate() {
            let mut left = *word;
            *before = all.columns.len();
            while left != 0 {
                all.columns.push(64 * w + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
        for &Outlier { row, column, value } in outliers {
            let (word, before) = words[column / 64];
            let index = before + (word & ((1 << (column % 64)) - 1)).count_ones() as usize;
            all.values.push((index, value));
            let end = all.values.len();
            match all.rows.last_mut() {
                Some((last, own)) if *last == row => own.end = end,
                _ => all.rows.push((row, end - 1..end)),
            }
        }
        all
    }

    /// The number of columns that have outliers.
    pub(super) fn columns(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The columns in this range that have outliers, and their indices among all that have.
    pub(super) fn within(&self, range: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let first = self.columns.partition_point(|column| *column < range.start);
        let columns = self.columns.iter().enumerate().skip(first);
        columns.map(|(at, column)| (at, *column)).take_while(move |(_, column)| *column < range.end)
    }

    /// Columns and numbers of the outliers of a row.
    pub(super) fn of_row(&self, row: usize) -> impl Iterator<Item = (usize, f32)> {
        let found = self.rows.binary_search_by_key(&row, |(row, _)| *row);
        let own = found.map_or(0..0, |at| self.rows[at].1.clone());
        self.values[own].iter().map(|(at, value)| (self.columns[*at], *value))
    }

    /// Adds the products of all outliers with some columns of y, from `j` on. `weights` has their weights.
    pub(super) fn add(&self, isa: Isa, weights: &Columns, y: &mut MatMut<'_, f32>, j: usize) {
        if !self.is_empty() {
            isa.run(Add { outliers: self, weights, y, j });
        }
    }
}

/// Adds the products of a row's outliers to `V` vectors of y, which are in the columns of y from `at` on.
#[inline(always)]
fn add_vectors<S: Simd, const V: usize>(
    s: S,
    outliers: &[(usize, f32)],
    (weights, rows, at): (&[f32], usize, usize),
    y: &mut [f32],
) {
    let y = &mut y[..V * S::LANES];
    let mut sums = [s.splat(0.0); V];
    for (sum, y) in sums.iter_mut().zip(y.chunks_exact(S::LANES)) {
        *sum = s.load(y);
    }
    for &(column, value) in outliers {
        let weights = &weights[column * rows + at..][..V * S::LANES];
        let value = s.splat(value);
        for (sum, weights) in sums.iter_mut().zip(weights.chunks_exact(S::LANES)) {
            *sum = s.mul_add(value, s.load(weights), *sum);
        }
    }
    for (sum, y) in sums.iter().zip(y.chunks_exact_mut(S::LANES)) {
        s.store(y, *sum);
    }
}

/// Rows of a weight, of which only the columns that have outliers are known.
pub(super) struct Columns {
    /// For each column, the weights of all rows.
    weights: Scratch<f32>,
    rows: usize,
}

impl Columns {
    /// Room for the columns of these outliers.
    pub(super) fn new(outliers: &ByRow, rows: usize) -> Self {
        Self { weights: Scratch::new(outliers.columns.len() * rows), rows }
    }

    /// The weights of all rows in the column with this index.
    pub(super) fn column(&mut self, at: usize) -> &mut [f32] {
        &mut self.weights[at * self.rows..][..self.rows]
    }
}

struct Add<'a, 'y> {
    outliers: &'a ByRow,
    weights: &'a Columns,
    y: &'a mut MatMut<'y, f32>,
    j: usize,
}

impl VectorFn for Add<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Add { outliers, weights, y, j } = self;
        let (rows, weights) = (weights.rows, &*weights.weights);
        for (row, own) in &outliers.rows {
            let own = &outliers.values[own.clone()];
            let y = &mut y.row_mut(*row)[j..];
            let (count, mut at) = (y.len().min(rows), 0);
            while at + 8 * S::LANES <= count {
                add_vectors::<S, 8>(s, own, (weights, rows, at), &mut y[at..]);
                at += 8 * S::LANES;
            }
            while at + 2 * S::LANES <= count {
                add_vectors::<S, 2>(s, own, (weights, rows, at), &mut y[at..]);
                at += 2 * S::LANES;
            }
            while at < count {
                let y = &mut y[at..count.min(at + S::LANES)];
                let mut last = [0.0; MAX_LANES];
                last[..y.len()].copy_from_slice(y);
                add_vectors::<S, 1>(s, own, (weights, rows, at), &mut last);
                y.copy_from_slice(&last[..y.len()]);
                at += S::LANES;
            }
        }
    }
}
