//! The register tile: the one loop that all products end in.

use super::scalar::{Input, Scalar};
use crate::simd::{MAX_LANES, Simd};

/// Where a tile's operands and result lie. Strides are in elements.
#[derive(Clone, Copy)]
pub(super) struct Tile<B: Input> {
    /// Depth of the product.
    pub(super) k: usize,
    pub(super) a: *const B::Acc,
    pub(super) a_row: usize,
    pub(super) a_col: usize,
    pub(super) b: *const B,
    pub(super) b_row: usize,
    pub(super) c: *mut B::Acc,
    pub(super) c_row: usize,
    /// Rows to store.
    pub(super) rows: usize,
    /// Columns to store.
    pub(super) cols: usize,
    /// Whether to add to C.
    pub(super) accumulate: bool,
}

/// Computes `ROWS` rows of `WIDTH` vectors and stores those that the tile has.
///
/// # Safety
/// `a` must be readable at i·a_row + p·a_col for i < `ROWS`, p < k; `b` at p·b_row + j for p < k, j < `WIDTH` vectors;
/// `c` readable and writable at i·c_row + j for i < rows, j < cols, by nobody else. rows ≤ `ROWS`, cols ≤ `WIDTH` vectors.
#[inline(always)]
pub(super) unsafe fn multiply<S: Simd, B: Input, const ROWS: usize, const WIDTH: usize>(s: S, tile: Tile<B>) {
    let lanes = B::Acc::lanes::<S>();
    let zero = B::Acc::splat(s, B::Acc::default());
    let mut acc = [[zero; WIDTH]; ROWS];
    // C is far away by now, and needed only after the loop.
    for i in 0..tile.rows.min(ROWS) {
        for j in (0..WIDTH * lanes).step_by(64 / size_of::<B::Acc>()) {
            s.prefetch(tile.c.wrapping_add(i * tile.c_row + j));
        }
    }
    let (mut a, mut b) = (tile.a, tile.b);
    for _ in 0..tile.k {
        let mut row = [zero; WIDTH];
        for (j, row) in row.iter_mut().enumerate() {
            // SAFETY: the caller promises `WIDTH` vectors in each of k rows of `b`.
            *row = unsafe { B::load_wide(s, b.add(j * lanes)) };
        }
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: the caller promises `ROWS` numbers in each of k columns of `a`.
            let x = B::Acc::splat(s, unsafe { *a.add(i * tile.a_row) });
            for (acc, row) in acc.iter_mut().zip(row) {
                *acc = B::Acc::mul_add(s, x, row, *acc);
            }
        }
        a = a.wrapping_add(tile.a_col);
        b = b.wrapping_add(tile.b_row);
    }
    // SAFETY: the caller promises rows · cols of `c`.
    unsafe { store(s, acc, tile) }
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn store<S: Simd, B: Input, const ROWS: usize, const WIDTH: usize>(
    s: S,
    acc: [[<B::Acc as Scalar>::V<S>; WIDTH]; ROWS],
    tile: Tile<B>,
) {
    let lanes = B::Acc::lanes::<S>();
    for (i, acc) in acc.into_iter().enumerate() {
        if i >= tile.rows {
            return;
        }
        for (j, acc) in acc.into_iter().enumerate() {
            // SAFETY: row i < rows.
            let c = unsafe { tile.c.add(i * tile.c_row) }.wrapping_add(j * lanes);
            if (j + 1) * lanes <= tile.cols {
                // SAFETY: all lanes are columns of the tile.
                unsafe {
                    let v = if tile.accumulate { B::Acc::add(s, B::Acc::load_ptr(s, c), acc) } else { acc };
                    B::Acc::store_ptr(s, c, v);
                }
            } else if j * lanes < tile.cols {
                // SAFETY: the columns left are fewer than a vector's lanes.
                unsafe { store_partial(s, acc, c, tile.cols - j * lanes, tile.accumulate) }
            }
        }
    }
}

/// # Safety
/// `c` must be readable and writable for `n` elements, fewer than a vector's lanes.
#[inline(always)]
unsafe fn store_partial<S: Simd, T: Scalar>(s: S, v: T::V<S>, c: *mut T, n: usize, accumulate: bool) {
    let mut lanes = [T::default(); MAX_LANES];
    // SAFETY: the array is at least a vector; `c` is as the caller promises.
    unsafe {
        if accumulate {
            std::ptr::copy_nonoverlapping(c, lanes.as_mut_ptr(), n);
        }
        let sum = T::add(s, v, T::load_ptr(s, lanes.as_ptr()));
        T::store_ptr(s, lanes.as_mut_ptr(), sum);
        std::ptr::copy_nonoverlapping(lanes.as_ptr(), c, n);
    }
}
