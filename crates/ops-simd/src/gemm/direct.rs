//! Small products, with operands read in place.

use super::blocked::clear_if_empty;
use super::input::{Accumulator, Widen};
use super::matrix::{Mat, MatMut};
use super::micro::{Tile, multiply};
use crate::isa::Isa;
use crate::simd::{Simd, TileKernel, VectorFn};

/// Up to this many bytes of both operands, packing costs more than it gains.
const MAX_BYTES: usize = 128 << 10;

/// Whether the operands are small, and rows of B are contiguous and whole vectors.
pub(super) fn fits_direct<B: Widen>(isa: Isa, a: &Mat<'_, B::Acc>, b: &Mat<'_, B>) -> bool {
    /// Lanes of a vector of `T`.
    struct Lanes<T>(std::marker::PhantomData<T>);
    impl<T: Accumulator> VectorFn for Lanes<T> {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            T::lanes::<S>()
        }
    }
    let bytes = |rows: usize, cols: usize, size: usize| rows.saturating_mul(cols).saturating_mul(size);
    b.col_stride() == 1
        && b.cols().is_multiple_of(isa.run(Lanes::<B::Acc>(std::marker::PhantomData)))
        && bytes(a.rows(), a.cols(), size_of::<B::Acc>()) + bytes(b.rows(), b.cols(), size_of::<B>())
            <= MAX_BYTES
}

/// C = A·B or C += A·B without packing.
pub(super) struct Direct<'a, B: Widen> {
    pub(super) a: Mat<'a, B::Acc>,
    pub(super) b: Mat<'a, B>,
    pub(super) c: MatMut<'a, B::Acc>,
    pub(super) accumulate: bool,
}

impl<B: Widen> VectorFn for Direct<'_, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        s.with_tile(self);
    }
}

impl<B: Widen> TileKernel for Direct<'_, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const R: usize, const W: usize, const ROWS: usize, const WIDTH: usize>(mut self, s: S) {
        if clear_if_empty(&mut self.c, self.a.cols(), self.accumulate) {
            return;
        }
        let lanes = B::Acc::lanes::<S>();
        let mut j = 0;
        while self.b.cols() - j >= WIDTH * lanes {
            self.columns::<S, ROWS, WIDTH>(s, j);
            j += WIDTH * lanes;
        }
        while self.b.cols() - j >= 2 * lanes {
            self.columns::<S, ROWS, 2>(s, j);
            j += 2 * lanes;
        }
        if self.b.cols() - j >= lanes {
            self.columns::<S, ROWS, 1>(s, j);
        }
    }
}

impl<B: Widen> Direct<'_, B> {
    /// Computes all rows of `WIDTH` vectors of columns, starting at column `j`.
    #[inline(always)]
    fn columns<S: Simd, const ROWS: usize, const WIDTH: usize>(&mut self, s: S, j: usize) {
        let m = self.a.rows();
        let mut i = 0;
        while m - i >= ROWS {
            self.tile::<S, ROWS, WIDTH>(s, i, j);
            i += ROWS;
        }
        while m - i >= 4 && ROWS > 4 {
            self.tile::<S, 4, WIDTH>(s, i, j);
            i += 4;
        }
        while m - i >= 2 && ROWS > 2 {
            self.tile::<S, 2, WIDTH>(s, i, j);
            i += 2;
        }
        while m > i {
            self.tile::<S, 1, WIDTH>(s, i, j);
            i += 1;
        }
    }

    /// Computes the tile at row i and column j, which must exist.
    #[inline(always)]
    fn tile<S: Simd, const ROWS: usize, const WIDTH: usize>(&mut self, s: S, i: usize, j: usize) {
        let width = WIDTH * B::Acc::lanes::<S>();
        let (a, b, c) = (&self.a, &self.b, &mut self.c);
        assert!(
            i + ROWS <= a.rows() && j + width <= b.cols() && c.rows() == a.rows() && c.cols() == b.cols()
        );
        let tile = Tile {
            k: a.cols(),
            a: a.tail(i, 0).as_ptr(),
            a_row: a.row_stride(),
            a_col: a.col_stride(),
            b: b.tail(0, j).as_ptr(),
            b_row: b.row_stride(),
            prefetch: 0,
            // SAFETY: row i and column j are within C, checked above.
            c: unsafe { c.as_mut_ptr().add(i * c.row_stride() + j) },
            c_row: c.row_stride(),
            rows: ROWS,
            cols: width,
            accumulate: self.accumulate,
        };
        // SAFETY: the rows and columns are within A, B and C, checked above; B's columns are adjacent.
        unsafe { multiply::<S, B, ROWS, WIDTH>(s, tile) }
    }
}
