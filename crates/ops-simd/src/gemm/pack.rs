//! Packs blocks into panels: the order in which the kernel reads them. A is widened while packing. B keeps its type, is padded
//! with zeros, and the kernel widens it on load.

use super::input::{Accumulator, Widen};
use super::matrix::Mat;
use super::transpose::MAX_SIDE;
use crate::simd::{MAX_LANES, Simd, VectorFn};

/// Packs panels of `ROWS` rows, ordered by panel, depth, row. `a` is the block; `out` holds whole panels. Rows beyond the last
/// one hold any numbers, because nothing that is computed from them is stored.
pub(super) struct PackA<'a, A: Widen, const ROWS: usize> {
    pub(super) a: Mat<'a, A>,
    pub(super) out: &'a mut [A::Acc],
}

impl<A: Widen, const ROWS: usize> VectorFn for PackA<'_, A, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { a, out } = self;
        let k = a.cols();
        if k == 0 {
            return;
        }
        for (panel, out) in out.chunks_exact_mut(ROWS * k).enumerate() {
            let first = panel * ROWS;
            let done = pack_squares::<S, A, ROWS>(s, &a, first, out);
            let (a, out) = (a.block(0, a.rows(), done, k - done), &mut out[done * ROWS..]);
            for i in 0..ROWS.min(a.rows() - first) {
                pack_row::<S, A, ROWS>(s, a.tail(first + i, 0), a.col_stride(), i, out);
            }
        }
    }
}

/// Packs the panel of the rows from `first` in squares whose side is a vector's lanes, each transposed in registers. Returns
/// the columns packed so: none if the elements of a row are not adjacent, or if there are few rows.
#[inline(always)]
fn pack_squares<S: Simd, A: Widen, const ROWS: usize>(
    s: S,
    a: &Mat<'_, A>,
    first: usize,
    out: &mut [A::Acc],
) -> usize {
    let lanes = A::Acc::lanes::<S>();
    // A square that is wider than the panel is written over by the next one; others must fit side by side.
    let few = a.rows() - first <= ROWS / 2;
    if !A::Acc::TURNS || few || a.col_stride() != 1 || (ROWS > lanes && !ROWS.is_multiple_of(lanes)) {
        return 0;
    }
    let done = a.cols() / lanes * lanes;
    for p in (0..done).step_by(lanes) {
        for j in (0..ROWS).step_by(lanes) {
            let mut square = [A::Acc::splat(s, A::Acc::default()); MAX_SIDE];
            for (i, row) in square.iter_mut().enumerate().take(lanes) {
                let from = &a.tail((first + j + i).min(a.rows() - 1), p)[..lanes];
                // SAFETY: the slice has as many elements as a vector.
                *row = unsafe { A::load_wide(s, from.as_ptr()) };
            }
            A::Acc::turn(s, &mut square);
            for (q, column) in square.iter().enumerate().take(lanes) {
                store_start(s, *column, &mut out[(p + q) * ROWS + j..]);
            }
        }
    }
    done
}

/// Stores the lanes of `v` for which `out` has room.
#[inline(always)]
fn store_start<S: Simd, T: Accumulator>(s: S, v: T::V<S>, out: &mut [T]) {
    let lanes = T::lanes::<S>();
    if out.len() >= lanes {
        // SAFETY: `out` has as many elements as a vector.
        return unsafe { T::store_ptr(s, out.as_mut_ptr(), v) };
    }
    let mut all = [T::default(); MAX_LANES];
    // SAFETY: the array holds at least a vector.
    unsafe { T::store_ptr(s, all.as_mut_ptr(), v) };
    out.copy_from_slice(&all[..out.len()]);
}

/// Packs row `i` of a panel.
#[inline(always)]
fn pack_row<S: Simd, A: Widen, const ROWS: usize>(
    s: S,
    row: &[A],
    stride: usize,
    i: usize,
    out: &mut [A::Acc],
) {
    let mut steps = out.chunks_exact_mut(ROWS);
    let mut at = 0;
    if stride == 1 {
        let lanes = A::Acc::lanes::<S>();
        let mut wide = [A::Acc::default(); MAX_LANES];
        while steps.len() >= lanes && row.len() - at >= lanes {
            // SAFETY: at least `lanes` elements of `row` remain, and the array holds at least a vector.
            unsafe { A::Acc::store_ptr(s, wide.as_mut_ptr(), A::load_wide(s, row.as_ptr().add(at))) };
            for (out, x) in steps.by_ref().take(lanes).zip(wide) {
                out[i] = x;
            }
            at += lanes;
        }
    }
    for out in steps {
        out[i] = row[at * stride].widen();
        at += 1;
    }
}

/// Packs all columns of `b` into panels of `width` columns; `out` holds whole panels.
pub(super) struct PackPanels<'a, B> {
    pub(super) b: Mat<'a, B>,
    pub(super) width: usize,
    pub(super) out: &'a mut [B],
}

impl<B: Widen> VectorFn for PackPanels<'_, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { b, width, out } = self;
        let k = b.rows();
        for (panel, out) in out.chunks_exact_mut(k * width).enumerate() {
            let first = panel * width;
            pack_b(s, b.block(0, k, first, width.min(b.cols() - first)), width, out);
        }
    }
}

/// Packs one panel of `width` columns of `b`, ordered by depth, then column; columns beyond `b` are zero.
#[inline(always)]
fn pack_b<S: Simd, B: Widen>(s: S, b: Mat<'_, B>, width: usize, out: &mut [B]) {
    let rows = out.chunks_exact_mut(width).take(b.rows());
    if b.col_stride() == 1 && b.cols() == width {
        for (p, out) in rows.enumerate() {
            out.copy_from_slice(&b.tail(p, 0)[..width]);
        }
        return;
    }
    let mut done = 0;
    if b.row_stride() == 1 && b.cols() == width && B::TRANSPOSES && width.is_multiple_of(S::LANES) {
        done = b.rows() / S::LANES * S::LANES;
        for p in (0..done).step_by(S::LANES) {
            for j in (0..width).step_by(S::LANES) {
                B::transpose(s, b.tail(p, j), b.col_stride(), &mut out[p * width + j..], width);
            }
        }
    }
    for (p, out) in out.chunks_exact_mut(width).enumerate().take(b.rows()).skip(done) {
        let row = b.tail(p, 0);
        for (j, out) in out.iter_mut().enumerate() {
            *out = if j < b.cols() { row[j * b.col_stride()] } else { B::default() };
        }
    }
}
