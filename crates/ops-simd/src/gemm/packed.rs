//! A right-hand matrix that is packed once.

use std::ops::Range;

use super::blocked::{DEPTH, Part, a_block, clear_if_empty, sweep};
use super::input::{Accumulator, Widen};
use super::matrix::{Mat, MatMut};
use super::pack::PackPanels;
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::memory::PackedMemory;
use crate::simd::{Simd, TileKernel, VectorFn};

/// B `[k, n]` in the panels that the kernel reads, for weights that many products share. Elements keep their type.
/// The size is k times n, with n rounded up to a multiple of [`PackedB::tile`]. The memory is owned or borrowed for `'m`.
///
/// Panels are grouped in blocks of up to 192 rows; the order is block, panel, row, column. Columns beyond n are zero.
pub struct PackedB<'m, T> {
    isa: Isa,
    k: usize,
    n: usize,
    tile: usize,
    memory: PackedMemory<'m>,
    of: std::marker::PhantomData<T>,
}

impl<T: Widen> PackedB<'static, T> {
    /// A B `[k, n]` whose panels `pack` writes into zeros.
    pub(super) fn filled(isa: Isa, k: usize, n: usize, pack: impl FnOnce(&mut [u8])) -> Self {
        let bytes = Self::size(isa, k, n);
        let mut memory = PackedMemory::zeros(bytes);
        pack(memory.owned_mut(bytes));
        Self { isa, k, n, tile: panel_width::<T>(isa), memory, of: std::marker::PhantomData }
    }
}

impl<'m, T: Widen> PackedB<'m, T> {
    /// Borrows the panels of a B `[k, n]` from `memory`, which [`PackedB::pack_into`] filled. Any bytes are valid panels of
    /// some B.
    ///
    /// # Errors
    /// As [`PackedB::pack_into`].
    pub fn from_bytes(isa: Isa, k: usize, n: usize, memory: &'m [u8]) -> Result<Self, Error> {
        let memory = PackedMemory::borrowed(memory, Self::size(isa, k, n))?;
        Ok(Self { isa, k, n, tile: panel_width::<T>(isa), memory, of: std::marker::PhantomData })
    }

    /// Bytes that a packed B `[k, n]` takes, saturated.
    pub fn size(isa: Isa, k: usize, n: usize) -> usize {
        let width = panel_width::<T>(isa);
        let padded = n.div_ceil(width).saturating_mul(width);
        padded.saturating_mul(k).saturating_mul(size_of::<T>())
    }

    /// Writes Bᵀ to `out` as `n` contiguous rows of `k` elements: the layout of the weight that it was packed from.
    ///
    /// # Errors
    /// [`Error::Length`] if `out` does not have k·n elements.
    pub fn unpack_transposed(&self, out: &mut [T]) -> Result<(), Error> {
        same_len("out", out.len(), self.k.saturating_mul(self.n))?;
        if out.is_empty() {
            return Ok(());
        }
        for p in (0..self.k).step_by(DEPTH) {
            let depth = DEPTH.min(self.k - p);
            let panels = self.panels(p, depth, 0, self.n).chunks_exact(depth * self.tile);
            for (columns, panel) in out.chunks_mut(self.tile * self.k).zip(panels) {
                for (j, column) in columns.chunks_exact_mut(self.k).enumerate() {
                    for (row, out) in column[p..p + depth].iter_mut().enumerate() {
                        *out = panel[row * self.tile + j];
                    }
                }
            }
        }
        Ok(())
    }

    /// Rows of B.
    pub fn rows(&self) -> usize {
        self.k
    }

    /// Columns of B.
    pub fn cols(&self) -> usize {
        self.n
    }

    /// Columns per panel; column ranges start at multiples of this.
    pub fn tile(&self) -> usize {
        self.tile
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        Self::size(self.isa, self.k, self.n)
    }

    /// The instruction set that the panels are packed for.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn isa(&self) -> Isa {
        self.isa
    }

    /// All columns.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(super) fn all_columns(&self) -> Columns {
        Columns { start: 0, end: self.n }
    }

    /// The panels for rows p..p + k, one block of the depth, and the part `range` of `columns`.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn block(&self, p: usize, k: usize, columns: Columns, range: Range<usize>) -> &[T] {
        self.panels(p, k, columns.start + range.start, columns.start + range.end)
    }

    /// The panels for rows p..p + k and the columns from `start`, the first of a panel, to `end`.
    fn panels(&self, p: usize, k: usize, start: usize, end: usize) -> &[T] {
        let padded = self.n.next_multiple_of(self.tile);
        let from = p * padded + k * start;
        let to = from + k * (end - start).next_multiple_of(self.tile);
        bytemuck::cast_slice(&self.memory.bytes()[from * size_of::<T>()..to * size_of::<T>()])
    }
}

impl<T> std::fmt::Debug for PackedB<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PackedB({} x {}, {}, tiles of {})", self.k, self.n, self.isa, self.tile)
    }
}

/// Columns per panel of `T`.
struct Width<T>(std::marker::PhantomData<T>);

impl<T: Widen> VectorFn for Width<T> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> usize {
        s.with_tile(self)
    }
}

impl<T: Widen> TileKernel for Width<T> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd, const R: usize, const WIDTH: usize, const DR: usize, const DW: usize>(
        self,
        _: S,
    ) -> usize {
        WIDTH * T::Acc::lanes::<S>()
    }
}

/// Columns per panel.
pub(super) fn panel_width<T: Widen>(isa: Isa) -> usize {
    isa.run(Width::<T>(std::marker::PhantomData))
}

/// Packs all of `b` into panels of `tile` columns.
pub(super) fn pack_all<T: Widen>(isa: Isa, b: Mat<'_, T>, tile: usize, out: &mut [T]) {
    let padded = b.cols().next_multiple_of(tile);
    for (block, out) in out.chunks_mut(DEPTH * padded).enumerate() {
        let p = block * DEPTH;
        let b = b.block(p, DEPTH.min(b.rows() - p), 0, b.cols());
        isa.run(PackPanels { b, width: tile, out });
    }
}

/// How the products of a row are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// In the order that is fastest for this number of rows.
    Fastest,
    /// In an order that does not depend on the number of rows.
    ByRow,
}

/// Checks the dimensions and the range of columns.
pub(super) fn whole_tiles<A: Widen, B: Widen<Acc = A::Acc>>(
    a: &Mat<'_, A>,
    b: &PackedB<'_, B>,
    columns: Range<usize>,
    c: &MatMut<'_, A::Acc>,
) -> Result<Columns, Error> {
    let Range { start, end } = columns;
    same_len("rows of b", b.k, a.cols())?;
    let whole = |at: usize| at.is_multiple_of(b.tile) || at == b.n;
    if start > end || end > b.n || !whole(start) || !whole(end) {
        return Err(Error::Range { operand: "columns", start, end, len: b.n });
    }
    same_len("rows of c", c.rows(), a.rows())?;
    same_len("columns of c", c.cols(), end - start)?;
    Ok(Columns { start, end })
}

/// A range of whole panels of a packed B.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    start: usize,
    end: usize,
}

/// The product for an `A` and a `B` whose dimensions match.
pub(super) fn product<A: Widen, B: Widen<Acc = A::Acc>>(
    b: &PackedB<'_, B>,
    a: Mat<'_, A>,
    columns: Columns,
    c: MatMut<'_, A::Acc>,
    accumulate: bool,
    sums: Sums,
) {
    b.isa.run(Packed { a, b, columns, c, accumulate, sums });
}

struct Packed<'a, A: Widen, B: Widen<Acc = A::Acc>> {
    a: Mat<'a, A>,
    b: &'a PackedB<'a, B>,
    columns: Columns,
    c: MatMut<'a, A::Acc>,
    accumulate: bool,
    sums: Sums,
}

impl<A: Widen, B: Widen<Acc = A::Acc>> VectorFn for Packed<'_, A, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        s.with_tile(self);
    }
}

impl<A: Widen, B: Widen<Acc = A::Acc>> TileKernel for Packed<'_, A, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const ROWS: usize, const WIDTH: usize, const DR: usize, const DW: usize>(self, s: S) {
        let Self { a, b, columns: Columns { start, end }, mut c, accumulate, sums } = self;
        let chains = sums == Sums::Fastest && a.rows() <= 2;
        if clear_if_empty(&mut c, a.cols(), accumulate) {
            return;
        }
        let mut packed_a = a_block::<A, ROWS>(a.rows(), a.cols().min(DEPTH));
        // The panels of these columns stay in a share of the L3 cache while all rows of A are processed.
        for j in (start..end).step_by(COLUMNS) {
            let columns = COLUMNS.min(end - j);
            for p in (0..a.cols()).step_by(DEPTH) {
                let k = DEPTH.min(a.cols() - p);
                let panels = b.panels(p, k, j, j + columns);
                let accumulate = accumulate || p > 0;
                let part = Part { p, k, j: j - start, columns, accumulate, chains };
                sweep::<S, A, B, ROWS, WIDTH>(s, &a, panels, &mut c, part, &mut packed_a);
            }
        }
    }
}

/// A multiple of every tile width.
const COLUMNS: usize = 4096;
