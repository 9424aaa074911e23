//! The register tile: the inner loop of all products.

use super::input::{Accumulator, Widen};
use crate::simd::{MAX_LANES, Simd};

/// The addresses of a tile's operands and result. Strides are in elements.
#[derive(Clone, Copy)]
pub(super) struct Tile<B: Widen> {
    /// Depth of the product.
    pub(super) k: usize,
    pub(super) a: *const B::Acc,
    pub(super) a_row: usize,
    pub(super) a_col: usize,
    pub(super) b: *const B,
    pub(super) b_row: usize,
    /// Distance from a row of B to the data to prefetch into the L2 cache; 0 to prefetch nothing.
    pub(super) prefetch: usize,
    pub(super) c: *mut B::Acc,
    pub(super) c_row: usize,
    /// Rows to store.
    pub(super) rows: usize,
    /// Columns to store.
    pub(super) cols: usize,
    /// Whether to add to C.
    pub(super) accumulate: bool,
}

/// Computes `ROWS` rows of `WIDTH` vectors and stores the rows and columns that the tile has.
///
/// # Safety
/// `a` must be readable at i·a_row + p·a_col for i < `ROWS`, p < k; `b` at p·b_row + j for p < k, j < `WIDTH` vectors;
/// `c` readable and writable at i·c_row + j for i < rows, j < cols, without concurrent access. rows ≤ `ROWS`, cols ≤ `WIDTH`
/// vectors.
#[inline(always)]
pub(super) unsafe fn multiply<S: Simd, B: Widen, const ROWS: usize, const WIDTH: usize>(s: S, tile: Tile<B>) {
    // SAFETY: the caller upholds the same contract.
    unsafe { multiply_chained::<S, B, ROWS, WIDTH, 1>(s, tile) }
}

/// Like [`multiply`], with separate sums for every `CHAINS`th step of the depth. With few rows, the additions of a single
/// chain would wait for each other.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
pub(super) unsafe fn multiply_chained<
    S: Simd,
    B: Widen,
    const ROWS: usize,
    const WIDTH: usize,
    const CHAINS: usize,
>(
    s: S,
    tile: Tile<B>,
) {
    let lanes = B::Acc::lanes::<S>();
    let mut chains = [[[B::Acc::splat(s, B::Acc::default()); WIDTH]; ROWS]; CHAINS];
    // C is not cached by now, and it is needed only after the loop.
    for i in 0..tile.rows.min(ROWS) {
        for j in (0..WIDTH * lanes).step_by(64 / size_of::<B::Acc>()) {
            s.prefetch(tile.c.wrapping_add(i * tile.c_row + j));
        }
    }
    let mut now = tile;
    for _ in 0..tile.k / CHAINS {
        for acc in &mut chains {
            // SAFETY: the caller guarantees k steps.
            unsafe { step(s, &mut now, acc) }
        }
    }
    for acc in chains.iter_mut().take(tile.k % CHAINS) {
        // SAFETY: the caller guarantees k steps, and these are the remaining ones.
        unsafe { step(s, &mut now, acc) }
    }
    let mut acc = chains[0];
    for chain in &chains[1..] {
        for (acc, chain) in acc.iter_mut().zip(chain) {
            for (acc, chain) in acc.iter_mut().zip(chain) {
                *acc = B::Acc::add(s, *acc, *chain);
            }
        }
    }
    // SAFETY: the caller guarantees rows · cols of `c`.
    unsafe { store(s, acc, tile) }
}

/// Computes one step of the depth and advances to the next.
///
/// # Safety
/// As for [`multiply`]; a step must remain.
#[inline(always)]
unsafe fn step<S: Simd, B: Widen, const ROWS: usize, const WIDTH: usize>(
    s: S,
    tile: &mut Tile<B>,
    acc: &mut [[<B::Acc as Accumulator>::V<S>; WIDTH]; ROWS],
) {
    let lanes = B::Acc::lanes::<S>();
    if tile.prefetch > 0 {
        for j in (0..WIDTH * lanes).step_by(64 / size_of::<B>()) {
            s.prefetch_far(tile.b.wrapping_add(tile.prefetch + j));
        }
    }
    let mut row = [B::Acc::splat(s, B::Acc::default()); WIDTH];
    for (j, row) in row.iter_mut().enumerate() {
        // SAFETY: the caller guarantees `WIDTH` vectors in each of k rows of `b`.
        *row = unsafe { B::load_wide(s, tile.b.add(j * lanes)) };
    }
    for (i, acc) in acc.iter_mut().enumerate() {
        // SAFETY: the caller guarantees `ROWS` numbers in each of k columns of `a`.
        let x = B::Acc::splat(s, unsafe { *tile.a.add(i * tile.a_row) });
        for (acc, row) in acc.iter_mut().zip(row) {
            *acc = B::Acc::mul_add(s, x, row, *acc);
        }
    }
    tile.a = tile.a.wrapping_add(tile.a_col);
    tile.b = tile.b.wrapping_add(tile.b_row);
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn store<S: Simd, B: Widen, const ROWS: usize, const WIDTH: usize>(
    s: S,
    acc: [[<B::Acc as Accumulator>::V<S>; WIDTH]; ROWS],
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
                // SAFETY: fewer columns remain than a vector has lanes.
                unsafe { store_partial(s, acc, c, tile.cols - j * lanes, tile.accumulate) }
            }
        }
    }
}

/// # Safety
/// `c` must be readable and writable for `n` elements, fewer than a vector's lanes.
#[inline(always)]
unsafe fn store_partial<S: Simd, T: Accumulator>(s: S, v: T::V<S>, c: *mut T, n: usize, accumulate: bool) {
    let mut lanes = [T::default(); MAX_LANES];
    // SAFETY: the array holds at least a vector; the caller guarantees `c`.
    unsafe {
        if accumulate {
            std::ptr::copy_nonoverlapping(c, lanes.as_mut_ptr(), n);
        }
        let sum = T::add(s, v, T::load_ptr(s, lanes.as_ptr()));
        T::store_ptr(s, lanes.as_mut_ptr(), sum);
        std::ptr::copy_nonoverlapping(lanes.as_ptr(), c, n);
    }
}
