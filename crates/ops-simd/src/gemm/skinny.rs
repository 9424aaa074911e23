//! Products where A has few rows, so that reading B once limits the speed.

use super::matrix::{Mat, MatMut};
use crate::element::Element;
use crate::isa::Isa;
use crate::scratch::Scratch;
use crate::simd::{Simd, VectorFn};

/// Up to this many rows of A, B is read in place at memory bandwidth.
pub(super) const MAX_ROWS: usize = 8;
/// From this depth on, reducing a vector at the end of each dot product costs less than packing B.
const MIN_DEPTH: usize = 64;
/// From this many columns on, passes over C are cheap compared with reading B.
const MIN_COLUMNS: usize = 128;
/// Columns of B that are read side by side.
const COLUMNS: usize = 4;
/// Prefetch distance within a column, in bytes.
const PREFETCH_DISTANCE: usize = 8 << 10;
/// From this many elements of B on, blocks are not faster.
const MIN_ELEMENTS: usize = 1 << 12;

/// The order in which B is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Columns of B are contiguous: one dot product per column.
    Columns,
    /// As [`Columns`](Self::Columns), summed in the same order whatever the number of rows.
    ColumnsByRow,
    /// Rows of B are contiguous: rows are scaled by elements of A and added up.
    Rows,
}

/// The most bytes of widened rows of A that [`dots`] is given at a time, and the most rows.
pub(super) const ROWS_BYTES: usize = 256 << 10;
pub(super) const MOST_ROWS: usize = 64;

/// The rows of A in f32, contiguous.
pub(super) fn widened<A: Element>(a: Mat<'_, A>) -> Scratch<f32> {
    let k = a.cols();
    let mut rows = Scratch::<f32>::new(a.rows() * k);
    for (i, row) in rows.chunks_exact_mut(k.max(1)).enumerate() {
        for (p, x) in row.iter_mut().zip(a.tail(i, 0).iter().step_by(a.col_stride().max(1))) {
            *p = x.to_f32();
        }
    }
    rows
}

/// C = A·B or C += A·B for a B with contiguous columns. The sums of a row do not depend on the number of rows.
pub(super) fn dots<A: Element, B: Element>(
    isa: Isa,
    a: Mat<'_, A>,
    b: Mat<'_, B>,
    c: MatMut<'_, f32>,
    accumulate: bool,
) {
    let rows = widened(a);
    isa.run(Skinny { a: &rows, b, c, accumulate, order: Order::ColumnsByRow });
}

/// The order for this product, or `None` if blocks are faster.
pub(super) fn order<B>(rows: usize, b: &Mat<'_, B>) -> Option<Order> {
    if rows > MAX_ROWS || b.rows().saturating_mul(b.cols()) < MIN_ELEMENTS {
        None
    } else if b.row_stride() == 1 && b.rows() >= MIN_DEPTH {
        Some(Order::Columns)
    } else if rows <= 2 && b.col_stride() == 1 && b.cols() >= MIN_COLUMNS {
        // With more rows, passes over C cost more than not packing B saves.
        Some(Order::Rows)
    } else {
        None
    }
}

/// C = A·B or C += A·B for an A with contiguous rows.
pub(super) struct Skinny<'a, B> {
    pub(super) a: &'a [f32],
    pub(super) b: Mat<'a, B>,
    pub(super) c: MatMut<'a, f32>,
    pub(super) accumulate: bool,
    pub(super) order: Order,
}

impl<B: Element> VectorFn for Skinny<'_, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        match self.order {
            Order::Columns | Order::ColumnsByRow => self.by_columns(s),
            Order::Rows => self.by_rows(s),
        }
    }
}

impl<B: Element> Skinny<'_, B> {
    #[inline(always)]
    fn by_columns<S: Simd>(&mut self, s: S) {
        let n = self.b.cols();
        let mut j = 0;
        let one_by_one = self.order == Order::ColumnsByRow || self.c.rows() == 1;
        while n > j && size_of::<B>() < 4 && one_by_one {
            for i in 0..self.c.rows() {
                self.dot(s, i, j);
            }
            j += 1;
        }
        while n > j {
            self.columns(s, j);
            j += COLUMNS;
        }
    }

    /// Computes up to [`COLUMNS`] columns from `j` on for all rows of A, as many rows at once as registers allow. After the first pass, B comes
    /// from the L1 cache.
    #[inline(always)]
    fn columns<S: Simd>(&mut self, s: S, j: usize) {
        let m = self.c.rows();
        let mut i = 0;
        while m - i >= 4 && S::LANES == 16 {
            self.dots::<S, 4>(s, i, j);
            i += 4;
        }
        while m - i >= 2 {
            self.dots::<S, 2>(s, i, j);
            i += 2;
        }
        if m > i {
            self.dots::<S, 1>(s, i, j);
        }
    }

    /// Computes column `j` for row `i` of A, with four sums. Reading 16-bit columns one after the other is faster than
    /// four side by side.
    #[inline(always)]
    fn dot<S: Simd>(&mut self, s: S, i: usize, j: usize) {
        let k = self.b.rows();
        let (a, b) = (&self.a[i * k..][..k], &self.b.tail(0, j)[..k]);
        let mut acc = [s.splat(0.0); 4];
        let mut steps = (a.chunks_exact(4 * S::LANES), b.chunks_exact(4 * S::LANES));
        for (a, b) in steps.0.by_ref().zip(steps.1.by_ref()) {
            for line in (0..4 * S::LANES).step_by(64 / size_of::<B>()) {
                s.prefetch(b.as_ptr().wrapping_add(line + PREFETCH_DISTANCE / size_of::<B>()));
            }
            for (q, acc) in acc.iter_mut().enumerate() {
                let at = q * S::LANES..(q + 1) * S::LANES;
                *acc = s.mul_add(B::load(s, &b[at.clone()]), s.load(&a[at]), *acc);
            }
        }
        let (a, b) = (steps.0.remainder(), steps.1.remainder());
        for (q, (a, b)) in a.chunks(S::LANES).zip(b.chunks(S::LANES)).enumerate() {
            let w = B::load_partial(s, b, 0.0);
            acc[q] = s.mul_add(w, s.load_partial(a, 0.0), acc[q]);
        }
        let sum = s.reduce_add(s.add(s.add(acc[0], acc[1]), s.add(acc[2], acc[3])));
        let c = &mut self.c.row_mut(i)[j];
        *c = if self.accumulate { *c + sum } else { sum };
    }

    // If fewer columns are left, the last one is computed several times: another copy of this function for a
    // single column would double the code.
    #[inline(always)]
    fn dots<S: Simd, const M: usize>(&mut self, s: S, i: usize, j: usize) {
        let (k, n) = (self.b.rows(), self.b.cols());
        let mut a = [&self.a[..0]; M];
        for (r, a) in a.iter_mut().enumerate() {
            *a = &self.a[(i + r) * k..][..k];
        }
        let mut b = [self.b.tail(0, j); COLUMNS];
        for (r, b) in b.iter_mut().enumerate() {
            *b = &self.b.tail(0, (j + r).min(n - 1))[..k];
        }
        let mut acc = [[s.splat(0.0); M]; COLUMNS];
        // The hardware prefetcher stops at page boundaries, so prefetch the next columns here. With one row of A, four
        // columns at a time are enough streams, and prefetch instructions cost more than they gain.
        let ahead = COLUMNS * self.b.col_stride();
        let mut at = 0;
        while k - at >= S::LANES {
            let mut x = [s.splat(0.0); M];
            for (x, a) in x.iter_mut().zip(a) {
                *x = s.load(&a[at..at + S::LANES]);
            }
            for (acc, b) in acc.iter_mut().zip(b) {
                if M > 1 {
                    s.prefetch_far(b.as_ptr().wrapping_add(at + ahead));
                }
                let w = B::load(s, &b[at..at + S::LANES]);
                for (acc, x) in acc.iter_mut().zip(x) {
                    *acc = s.mul_add(w, x, *acc);
                }
            }
            at += S::LANES;
        }
        if at < k {
            for (acc, b) in acc.iter_mut().zip(b) {
                let w = B::load_partial(s, &b[at..], 0.0);
                for (acc, a) in acc.iter_mut().zip(a) {
                    *acc = s.mul_add(w, s.load_partial(&a[at..], 0.0), *acc);
                }
            }
        }
        for (q, acc) in acc.into_iter().enumerate().take(n - j) {
            for (r, acc) in acc.into_iter().enumerate() {
                let c = &mut self.c.row_mut(i + r)[j + q];
                let sum = s.reduce_add(acc);
                *c = if self.accumulate { *c + sum } else { sum };
            }
        }
    }

    #[inline(always)]
    fn by_rows<S: Simd>(&mut self, s: S) {
        let k = self.b.rows();
        if !self.accumulate {
            for i in 0..self.c.rows() {
                self.c.row_mut(i).fill(0.0);
            }
        }
        let mut p = 0;
        while k - p >= 8 {
            self.add_rows::<S, 8>(s, p);
            p += 8;
        }
        while k > p {
            self.add_rows::<S, 1>(s, p);
            p += 1;
        }
    }

    /// Adds the scaled rows `p..p + N` of B.
    #[inline(always)]
    fn add_rows<S: Simd, const N: usize>(&mut self, s: S, p: usize) {
        let (k, n) = (self.b.rows(), self.b.cols());
        let mut b = [self.b.tail(p, 0); N];
        for (r, b) in b.iter_mut().enumerate() {
            *b = &self.b.tail(p + r, 0)[..n];
        }
        for i in 0..self.c.rows() {
            let a = &self.a[i * k + p..][..N];
            let c = &mut self.c.row_mut(i)[..n];
            let mut weights = [s.splat(0.0); N];
            for (w, a) in weights.iter_mut().zip(a) {
                *w = s.splat(*a);
            }
            let mut at = 0;
            while n - at >= S::LANES {
                let mut sums = [s.load(&c[at..at + S::LANES]), s.splat(0.0)];
                for (r, (b, w)) in b.iter().zip(weights).enumerate() {
                    sums[r % 2] = s.mul_add(w, B::load(s, &b[at..at + S::LANES]), sums[r % 2]);
                }
                s.store(&mut c[at..at + S::LANES], s.add(sums[0], sums[1]));
                at += S::LANES;
            }
            for at in at..n {
                for (b, a) in b.iter().zip(a) {
                    c[at] += a * b[at].to_f32();
                }
            }
        }
    }
}
