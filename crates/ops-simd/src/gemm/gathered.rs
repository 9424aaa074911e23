//! Products with a right-hand matrix that is gathered while it is packed: the shifted copies of an image that a convolution
//! multiplies are never in memory as a whole.

use std::ops::Range;

use super::blocked::{DEPTH, Panels, Part, clear_if_empty};
use super::input::{Accumulator, Widen};
use super::matrix::{Mat, MatMut};
use super::pack::PackA;
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::scratch::Scratch;
use crate::simd::{Simd, TileKernel, VectorFn};

/// Bytes of a block of B: it stays in the L2 cache while all rows of A are multiplied by it.
const MAX_B_BYTES: usize = 192 << 10;
/// An upper bound on the columns of a panel, for any instruction set, and on the elements of a vector.
const MAX_WIDTH: usize = 64;

/// A `[m, k]` in the panels that the kernel reads, widened, for products that share it.
///
/// Panels are grouped in blocks of the depth; within a block, the order is panel, depth, row. Rows beyond m hold
/// any numbers.
pub struct PackedA<T> {
    isa: Isa,
    m: usize,
    k: usize,
    padded: usize,
    panels: Scratch<T>,
}

impl<T: Accumulator> PackedA<T> {
    /// Packs `a` for `isa`.
    pub fn new<A: Widen<Acc = T>>(isa: Isa, a: Mat<'_, A>) -> Self {
        let (m, k) = (a.rows(), a.cols());
        let (padded, panels) = isa.run(PackWhole { a });
        Self { isa, m, k, padded, panels }
    }

    /// Rows of A.
    pub fn rows(&self) -> usize {
        self.m
    }

    /// Columns of A.
    pub fn cols(&self) -> usize {
        self.k
    }

    /// The panels of columns p..p + k, one block of the depth.
    fn block(&self, p: usize, k: usize) -> &[T] {
        &self.panels[p * self.padded..(p + k) * self.padded]
    }
}

impl<T> std::fmt::Debug for PackedA<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PackedA({} x {}, {})", self.m, self.k, self.isa)
    }
}

/// Packs all of A. Returns the number of rows in whole panels, and the panels.
struct PackWhole<'a, A> {
    a: Mat<'a, A>,
}

impl<A: Widen> VectorFn for PackWhole<'_, A> {
    type Output = (usize, Scratch<A::Acc>);

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        s.with_tile(self)
    }
}

impl<A: Widen> TileKernel for PackWhole<'_, A> {
    type Output = (usize, Scratch<A::Acc>);

    #[inline(always)]
    fn run<S: Simd, const ROWS: usize, const WIDTH: usize, const DR: usize, const DW: usize>(
        self,
        s: S,
    ) -> Self::Output {
        let a = self.a;
        let padded = a.rows().next_multiple_of(ROWS);
        let mut panels = Scratch::new(padded * a.cols());
        for p in (0..a.cols()).step_by(DEPTH) {
            let k = DEPTH.min(a.cols() - p);
            let out = &mut panels[p * padded..(p + k) * padded];
            s.vectorize(PackA::<A, ROWS> { a: a.block(0, a.rows(), p, k), out });
        }
        (padded, panels)
    }
}

/// B `[k, n]`, of which each row is a window of the same shape into the data: element (p, i · width + j) is
/// `data[rows[p] + i · step + j]` for j < width.
#[derive(Clone, Copy, Debug)]
pub struct Gathered<'a, T> {
    data: &'a [T],
    rows: &'a [usize],
    width: usize,
    step: usize,
    columns: usize,
}

impl<'a, T> Gathered<'a, T> {
    /// Describes `count` runs of `width` columns, `step` apart.
    ///
    /// # Errors
    /// [`Error::Bounds`] if an element is beyond `data`.
    pub fn new(
        data: &'a [T],
        rows: &'a [usize],
        count: usize,
        width: usize,
        step: usize,
    ) -> Result<Self, Error> {
        let columns = count.saturating_mul(width);
        let reach = |first: usize| {
            let last = (count - 1).checked_mul(step)?.checked_add(width - 1)?;
            first.checked_add(last)?.checked_add(1)
        };
        let need = match rows.iter().max() {
            Some(first) if columns > 0 => reach(*first).unwrap_or(usize::MAX),
            _ => 0,
        };
        if need > data.len() {
            return Err(Error::Bounds { operand: "b", len: data.len(), need });
        }
        // Adjacent runs are merged into one.
        let (width, step) = if step == width { (columns, columns) } else { (width, step) };
        Ok(Self { data, rows, width, step, columns })
    }

    /// The runs of the columns `from..to`: the first column of each, counted from `from`, its place in the data and its length.
    fn runs(&self, from: usize, to: usize, out: &mut [(usize, usize, usize); MAX_WIDTH]) -> usize {
        let (mut at, mut found) = (from, 0);
        while at < to {
            let (i, j) = (at / self.width, at % self.width);
            let len = (self.width - j).min(to - at);
            out[found] = (at - from, i * self.step + j, len);
            (at, found) = (at + len, found + 1);
        }
        found
    }
}

/// C = A·B, or C = start + A·B with a number for each row, for the columns `columns` of B; C has the same number of columns.
///
/// # Errors
/// [`Error::Length`] if the dimensions do not match, [`Error::Range`] if B has fewer columns.
pub fn gemm_gathered<T: Widen<Acc = T> + Accumulator>(
    a: &PackedA<T>,
    b: Gathered<'_, T>,
    columns: Range<usize>,
    start: Option<&[T]>,
    c: MatMut<'_, T>,
) -> Result<(), Error> {
    same_len("rows of b", b.rows.len(), a.k)?;
    same_len("rows of c", c.rows(), a.m)?;
    if columns.start > columns.end || columns.end > b.columns {
        let Range { start, end } = columns;
        return Err(Error::Range { operand: "columns", start, end, len: b.columns });
    }
    same_len("columns of c", c.cols(), columns.len())?;
    if let Some(start) = start {
        same_len("start", start.len(), a.m)?;
    }
    a.isa.run(Product { a, b, columns, start, c });
    Ok(())
}

struct Product<'a, T> {
    a: &'a PackedA<T>,
    b: Gathered<'a, T>,
    columns: Range<usize>,
    start: Option<&'a [T]>,
    c: MatMut<'a, T>,
}

impl<T: Widen<Acc = T> + Accumulator> VectorFn for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        s.with_tile(self);
    }
}

impl<T: Widen<Acc = T> + Accumulator> TileKernel for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const ROWS: usize, const WIDTH: usize, const DR: usize, const DW: usize>(self, s: S) {
        let Self { a, b, columns, start, mut c } = self;
        let width = WIDTH * T::lanes::<S>();
        if start.is_none() && clear_if_empty(&mut c, a.k, false) {
            return;
        }
        let block = (MAX_B_BYTES / (DEPTH * size_of::<T>()) / width).max(1) * width;
        // The last run of a panel may be copied beyond its end.
        let mut panels =
            Scratch::<T>::new(a.k.min(DEPTH) * columns.len().min(block).next_multiple_of(width) + MAX_WIDTH);
        for from in columns.clone().step_by(block) {
            let (first, count) = (from - columns.start, block.min(columns.end - from));
            if let Some(start) = start {
                for (i, start) in start.iter().enumerate() {
                    c.row_mut(i)[first..first + count].fill(*start);
                }
            }
            for p in (0..a.k).step_by(DEPTH) {
                let k = DEPTH.min(a.k - p);
                s.vectorize(Pack { b, p, k, from, count, width, out: &mut panels });
                let accumulate = start.is_some() || p > 0;
                let part = Part { p, k, j: first, columns: count, accumulate, chains: a.m <= 2 };
                let (a_block, b_block) = (a.block(p, k), &panels[..k * count.next_multiple_of(width)]);
                s.vectorize(Panels::<T, ROWS, WIDTH> {
                    a: a_block,
                    b: b_block,
                    c: &mut c,
                    i: 0,
                    rows: a.m,
                    part,
                });
            }
        }
    }
}

/// Gathers rows p..p + k and `count` columns into panels of `width` columns. `out` is longer by a vector.
struct Pack<'a, T> {
    b: Gathered<'a, T>,
    p: usize,
    k: usize,
    from: usize,
    count: usize,
    width: usize,
    out: &'a mut [T],
}

impl<T: Accumulator> VectorFn for Pack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { b, p, k, from, count, width, out } = self;
        let mut runs = [(0, 0, 0); MAX_WIDTH];
        for first in (0..count).step_by(width) {
            let found = b.runs(from + first, from + count.min(first + width), &mut runs);
            let out = &mut out[first * k..];
            for (row, start) in b.rows[p..p + k].iter().enumerate() {
                for (at, offset, len) in &runs[..found] {
                    copy_run::<S, T>(s, &b.data[start + offset..], &mut out[row * width + at..], *len);
                }
            }
        }
    }
}

/// Copies `len` elements, in whole vectors where there is room for them: the excess is overwritten by the
/// next run or never read.
#[inline(always)]
fn copy_run<S: Simd, T: Accumulator>(_: S, from: &[T], to: &mut [T], len: usize) {
    let lanes = T::lanes::<S>();
    let whole = len.next_multiple_of(lanes);
    if from.len() < whole || to.len() < whole {
        to[..len].copy_from_slice(&from[..len]);
        return;
    }
    for (from, to) in from[..whole].chunks_exact(lanes).zip(to[..whole].chunks_exact_mut(lanes)) {
        to.copy_from_slice(from);
    }
}
