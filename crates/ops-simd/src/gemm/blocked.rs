//! Products in blocks that fit the caches.

use super::input::{Accumulator, Widen};
use super::matrix::{Mat, MatMut};
use super::micro::{Tile, multiply, multiply_chained};
use super::pack::{PackA, PackPanels};
use crate::scratch::Scratch;
use crate::simd::{Simd, TileKernel, VectorFn};

/// Depth of a block: a panel of B this deep stays in the L1 cache.
pub(super) const DEPTH: usize = 192;
/// Maximum bytes of a block of A, which stays in the L2 cache.
const MAX_A_BYTES: usize = 560 << 10;
/// Bytes of a block of B, which stays in a share of the L3 cache.
const B_BYTES: usize = 4 << 20;

/// C = A·B or C += A·B through panels.
pub(super) struct Blocked<'a, A: Widen, B: Widen<Acc = A::Acc>> {
    pub(super) a: Mat<'a, A>,
    pub(super) b: Mat<'a, B>,
    pub(super) c: MatMut<'a, A::Acc>,
    pub(super) accumulate: bool,
}

impl<A: Widen, B: Widen<Acc = A::Acc>> VectorFn for Blocked<'_, A, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        s.with_tile(self);
    }
}

impl<A: Widen, B: Widen<Acc = A::Acc>> TileKernel for Blocked<'_, A, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const ROWS: usize, const WIDTH: usize, const DR: usize, const DW: usize>(self, s: S) {
        let width = WIDTH * B::Acc::lanes::<S>();
        let Self { a, b, mut c, accumulate } = self;
        if clear_if_empty(&mut c, a.cols(), accumulate) {
            return;
        }
        let block_cols = (B_BYTES / (DEPTH * size_of::<B>()) / width * width).max(width);
        let depth = a.cols().min(DEPTH);
        let mut packed_b = Scratch::<B>::new(depth * b.cols().min(block_cols).next_multiple_of(width));
        let mut packed_a = a_block::<A, ROWS>(a.rows(), depth);
        for j in (0..b.cols()).step_by(block_cols) {
            let columns = block_cols.min(b.cols() - j);
            for p in (0..a.cols()).step_by(DEPTH) {
                let k = DEPTH.min(a.cols() - p);
                let panels = &mut packed_b[..k * columns.next_multiple_of(width)];
                s.vectorize(PackPanels { b: b.block(p, k, j, columns), width, out: panels });
                let part = Part { p, k, j, columns, accumulate: accumulate || p > 0, chains: false };
                sweep::<S, A, B, ROWS, WIDTH>(s, &a, panels, &mut c, part, &mut packed_a);
            }
        }
    }
}

/// Scratch memory for a block of A.
pub(super) fn a_block<A: Widen, const ROWS: usize>(rows: usize, depth: usize) -> Scratch<A::Acc> {
    Scratch::new(DEPTH.min(depth) * a_rows::<A, ROWS>(rows))
}

/// Rows per block of A: whole panels, with all blocks about the same size.
fn a_rows<A: Widen, const ROWS: usize>(rows: usize) -> usize {
    let most = (MAX_A_BYTES / (DEPTH * size_of::<A::Acc>()) / ROWS * ROWS).max(ROWS);
    rows.div_ceil(rows.div_ceil(most).max(1)).next_multiple_of(ROWS)
}

/// Returns whether the product is empty. If so, clears C unless it is accumulated into.
#[inline(always)]
pub(super) fn clear_if_empty<T: Accumulator>(c: &mut MatMut<'_, T>, k: usize, accumulate: bool) -> bool {
    if k == 0 && !accumulate {
        for i in 0..c.rows() {
            c.row_mut(i).fill(T::default());
        }
    }
    k == 0 || c.rows() == 0 || c.cols() == 0
}

/// A block of B: rows p..p + k, and its columns starting at j.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) p: usize,
    pub(super) k: usize,
    pub(super) j: usize,
    pub(super) columns: usize,
    pub(super) accumulate: bool,
    /// Whether one or two rows may be summed in a different order than within a larger tile.
    pub(super) chains: bool,
}

/// Multiplies all rows of A by a packed block of B.
#[inline(always)]
pub(super) fn sweep<S: Simd, A: Widen, B: Widen<Acc = A::Acc>, const ROWS: usize, const WIDTH: usize>(
    s: S,
    a: &Mat<'_, A>,
    panels: &[B],
    c: &mut MatMut<'_, A::Acc>,
    part: Part,
    packed: &mut [A::Acc],
) {
    let block_rows = a_rows::<A, ROWS>(a.rows());
    for i in (0..a.rows()).step_by(block_rows) {
        let rows = block_rows.min(a.rows() - i);
        let packed = &mut packed[..part.k * rows.next_multiple_of(ROWS)];
        // Separate functions, so that packing is compiled once for a type of A, and the register tiles for one of B.
        s.vectorize(PackA::<A, ROWS> { a: a.block(i, rows, part.p, part.k), out: packed });
        s.vectorize(Panels::<B, ROWS, WIDTH> { a: packed, b: panels, c, i, rows, part });
    }
}

/// Rows i..i + `rows` of C from a packed block of A and a packed block of B.
pub(super) struct Panels<'a, 'c, B: Widen, const ROWS: usize, const WIDTH: usize> {
    pub(super) a: &'a [B::Acc],
    pub(super) b: &'a [B],
    pub(super) c: &'a mut MatMut<'c, B::Acc>,
    pub(super) i: usize,
    pub(super) rows: usize,
    pub(super) part: Part,
}

impl<B: Widen, const ROWS: usize, const WIDTH: usize> VectorFn for Panels<'_, '_, B, ROWS, WIDTH> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { a, b, c, i, rows, part: Part { k, j, columns, accumulate, chains, .. } } = self;
        let width = WIDTH * B::Acc::lanes::<S>();
        assert!(j + columns <= c.cols() && b.len() >= k * columns.next_multiple_of(width));
        assert!(i + rows <= c.rows() && a.len() >= k * rows.next_multiple_of(ROWS));
        for (bj, b) in b.chunks_exact(k * width).enumerate().take(columns.div_ceil(width)) {
            for (ai, a) in a.chunks_exact(k * ROWS).enumerate().take(rows.div_ceil(ROWS)) {
                let (row, col) = (ai * ROWS, bj * width);
                let tile = Tile {
                    k,
                    a: a.as_ptr(),
                    a_row: 1,
                    a_col: ROWS,
                    b: b.as_ptr(),
                    b_row: width,
                    // The hardware prefetcher stops at page boundaries, and with few rows of A it is too late.
                    prefetch: if ai == 0 { k * width } else { 0 },
                    // SAFETY: row i + `row` and column j + `col` are within C, checked above.
                    c: unsafe { c.as_mut_ptr().add((i + row) * c.row_stride() + j + col) },
                    c_row: c.row_stride(),
                    rows: ROWS.min(rows - row),
                    cols: width.min(columns - col),
                    accumulate,
                };
                // SAFETY: the panels hold k steps of `ROWS` and of `WIDTH` vectors; C as above.
                unsafe { multiply_rows::<S, B, ROWS, WIDTH>(s, tile, chains) }
            }
        }
    }
}

/// Runs the kernel with the fewest rows that covers the tile.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn multiply_rows<S: Simd, B: Widen, const ROWS: usize, const WIDTH: usize>(
    s: S,
    tile: Tile<B>,
    chains: bool,
) {
    // SAFETY: the caller upholds the contract; a kernel with fewer rows accesses less.
    unsafe {
        match tile.rows {
            1 if chains => multiply_chained::<S, B, 1, WIDTH, 4>(s, tile),
            2 if chains => multiply_chained::<S, B, 2, WIDTH, 2>(s, tile),
            1 => multiply::<S, B, 1, WIDTH>(s, tile),
            2 if ROWS > 2 => multiply::<S, B, 2, WIDTH>(s, tile),
            3..=4 if ROWS > 4 => multiply::<S, B, 4, WIDTH>(s, tile),
            5..=8 if ROWS > 8 => multiply::<S, B, 8, WIDTH>(s, tile),
            _ => multiply::<S, B, ROWS, WIDTH>(s, tile),
        }
    }
}
