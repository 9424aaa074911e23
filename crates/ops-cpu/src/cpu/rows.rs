//! Access to rows of operands as byte slices, across threads.
//!
//! This file and `threads/crew.rs` hold the unsafe code of this backend: here, threads write disjoint
//! rows of one output. The rows are disjoint because an output's layout repeats no element and each row
//! is visited once. Nothing here is generic over element types, so it is compiled once.
mod memory;

pub(super) use memory::{RowOperand, packed, reserve, scratch, widened, zeros};

use super::threads;
use super::vectors::{Fault, TaskResult, report};
use crate::host::raw::{Raw, RawMut};
use core::marker::PhantomData;
use ops_core::{Layout, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// Scratch memory for one row, aligned for every element type.
#[derive(Default)]
pub(super) struct Scratch(Vec<u64>);

impl Scratch {
    /// Memory for `len` words with unspecified values.
    pub(super) fn words(&mut self, len: usize) -> &mut [u64] {
        self.0.resize(len, 0);
        &mut self.0
    }
    fn bytes(&mut self, len: usize) -> &mut [u8] {
        self.0.resize(len.div_ceil(8), 0);
        &mut bytemuck::cast_slice_mut(&mut self.0)[..len]
    }
}

/// Position of the first element of row `i`.
#[inline]
pub(super) fn row_position(layout: &Layout, i: usize) -> usize {
    let outer = layout.rank().saturating_sub(1);
    let (mut rest, mut position) = (i, layout.offset());
    for (d, s) in layout.dims()[..outer].iter().zip(layout.strides()).rev() {
        position = position.wrapping_add_signed((rest % d) as isize * s);
        rest /= d;
    }
    position
}

/// Number of rows along the last axis; 0 for an empty tensor.
pub(super) fn count(layout: &Layout) -> usize {
    if layout.is_empty() { 0 } else { layout.len() / layout.last() }
}

/// Returns row `i`: borrowed if it is contiguous, otherwise gathered into `scratch`.
pub(super) fn row<'s>(x: &Raw<'s>, i: usize, scratch: &'s mut Scratch) -> &'s [u8] {
    gather(x, row_position(&x.layout, i), x.layout.last(), x.layout.last_stride(), scratch)
}

/// Returns `n` elements from position `first` on: borrowed if they are contiguous, otherwise gathered into `scratch`.
pub(super) fn gather<'s>(
    x: &Raw<'s>,
    first: usize,
    n: usize,
    stride: isize,
    scratch: &'s mut Scratch,
) -> &'s [u8] {
    if n <= 1 || stride == 1 {
        // An empty part of a u64 slice, so that it is aligned for every element type.
        return if n == 0 {
            bytemuck::cast_slice::<u64, u8>(&[])
        } else {
            &x.bytes[first * x.size..(first + n) * x.size]
        };
    }
    let gathered = scratch.bytes(n * x.size);
    for (j, to) in gathered.chunks_exact_mut(x.size).enumerate() {
        let p = first.wrapping_add_signed(stride * j as isize);
        copy_element(to, &x.bytes[p * x.size..(p + 1) * x.size]);
    }
    gathered
}

/// Copies one element. The match avoids a `memcpy` call for the usual sizes.
#[inline]
pub(super) fn copy_element(to: &mut [u8], from: &[u8]) {
    fn fixed<const N: usize>(to: &mut [u8], from: &[u8]) {
        if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
            *to = *from;
        }
    }
    match to.len() {
        1 => fixed::<1>(to, from),
        2 => fixed::<2>(to, from),
        4 => fixed::<4>(to, from),
        8 => fixed::<8>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// An output whose rows are written by several threads.
struct Sink<'a> {
    data: *mut u8,
    len: usize,
    size: usize,
    layout: Layout,
    marker: PhantomData<&'a mut [u8]>,
}
// SAFETY: a `Sink` is an exclusive slice of plain data. It is accessed only row by row through `row`, whose
// callers never let two threads use the same row at once.
unsafe impl Sync for Sink<'_> {}

impl<'a> Sink<'a> {
    /// Checks that the output lies within its memory and repeats no element. `Backend::run` checked this for the caller's
    /// operand; the layout here may be one that the kernel derived from it, and thread safety depends on it.
    fn new(y: RawMut<'a>) -> core::result::Result<Self, Fault> {
        if y.size == 0 || !y.layout.fits(y.bytes.len() / y.size) || !y.layout.is_injective() {
            return Err("an output reaches beyond its memory or repeats an element".into());
        }
        let (data, len) = (y.bytes.as_mut_ptr(), y.bytes.len());
        Ok(Sink { data, len, size: y.size, layout: y.layout, marker: PhantomData })
    }

    /// The bytes of `n` elements starting at position `p`, which may be any number: the check does not rely on the layout.
    ///
    /// # Safety
    /// The elements belong to a row that no other thread accesses during the borrow.
    #[allow(clippy::mut_from_ref)] // This is the purpose of a sink; see the safety contract.
    unsafe fn elements(&self, p: usize, n: usize) -> &mut [u8] {
        let end = p.checked_add(n).and_then(|end| end.checked_mul(self.size));
        assert!(end.is_some_and(|end| end <= self.len), "elements {p}..{p}+{n} lie outside the output");
        // SAFETY: the assertion keeps the range inside the slice; the caller guarantees exclusive access.
        unsafe { core::slice::from_raw_parts_mut(self.data.add(p * self.size), n * self.size) }
    }

    /// Calls `f` with row `i`, through `scratch` if the row is not contiguous.
    ///
    /// # Safety
    /// No two calls for the same row may overlap in time.
    unsafe fn row(
        &self,
        i: usize,
        scratch: &mut Scratch,
        f: &mut dyn FnMut(&mut [u8]) -> TaskResult,
    ) -> TaskResult {
        // SAFETY: the caller never runs two calls for one row at a time.
        unsafe { self.part_of_row(i, 0, self.layout.last(), scratch, f) }
    }

    /// Like [`row`](Self::row), with `n` elements of it from `start` on.
    ///
    /// # Safety
    /// No two calls for parts that overlap may overlap in time.
    unsafe fn part_of_row(
        &self,
        i: usize,
        start: usize,
        n: usize,
        scratch: &mut Scratch,
        f: &mut dyn FnMut(&mut [u8]) -> TaskResult,
    ) -> TaskResult {
        let stride = self.layout.last_stride();
        let first = row_position(&self.layout, i).wrapping_add_signed(stride * start as isize);
        if n <= 1 || stride == 1 {
            // SAFETY: parts of rows of a layout without repeated elements are disjoint, and the caller never runs two calls
            // for one of them at a time.
            return f(unsafe { self.elements(first, n) });
        }
        let position = |j: usize| first.wrapping_add_signed(stride * j as isize);
        let gathered = scratch.bytes(n * self.size);
        for (j, to) in gathered.chunks_exact_mut(self.size).enumerate() {
            // SAFETY: the element belongs to this part only.
            copy_element(to, unsafe { self.elements(position(j), 1) });
        }
        f(gathered)?;
        for (j, from) in gathered.chunks_exact(self.size).enumerate() {
            // SAFETY: as above.
            copy_element(unsafe { self.elements(position(j), 1) }, from);
        }
        Ok(())
    }
}

/// An output whose rows may be written in any order, each at most once.
pub(super) struct Rows<'a> {
    sink: Sink<'a>,
    written: Vec<AtomicBool>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(y: RawMut<'a>) -> core::result::Result<Self, Fault> {
        let written = (0..count(&y.layout)).map(|_| AtomicBool::new(false)).collect();
        Ok(Rows { sink: Sink::new(y)?, written })
    }

    /// Calls `f` with row `i`, through `scratch` if the row is not contiguous. Fails if the row was already written.
    pub(super) fn write(
        &self,
        i: usize,
        scratch: &mut Scratch,
        f: &mut dyn FnMut(&mut [u8]) -> TaskResult,
    ) -> TaskResult {
        if self.written.get(i).is_none_or(|written| written.swap(true, Ordering::AcqRel)) {
            return Err("a row of the output is written twice or does not exist".into());
        }
        // SAFETY: the flag admits one call per row.
        unsafe { self.sink.row(i, scratch, f) }
    }
}

/// Processes one row: its index and bytes, plus scratch memory for rows of other operands.
type RowFn<'f> = &'f (dyn Fn(&mut [Scratch; 3], usize, &mut [u8]) -> TaskResult + Sync);
/// Like [`RowFn`], for the rows of two outputs.
type PairFn<'f> = &'f (dyn Fn(&mut [Scratch; 3], usize, &mut [u8], &mut [u8]) -> TaskResult + Sync);

/// Calls `f(i, row)` for every row of `y`, in parallel if the work is large enough; `cost` is the work of a row, in elements.
///
/// The row holds the output's current values. Each task has its own scratch memory.
pub(super) fn for_each_row(op: &'static str, y: RawMut<'_>, cost: usize, f: RowFn<'_>) -> Result<()> {
    report(op, run_rows(y, cost, f))
}

fn run_rows(y: RawMut<'_>, cost: usize, f: RowFn<'_>) -> TaskResult {
    let rows = count(&y.layout);
    let sink = Sink::new(y)?;
    threads::split(rows, cost, &|range| {
        let (mut own, mut scratches) = (Scratch::default(), Default::default());
        for i in range {
            // SAFETY: `split` hands out every row once.
            unsafe { sink.row(i, &mut own, &mut |row| f(&mut scratches, i, row)) }?;
        }
        Ok(())
    })
}

/// Neighbouring rows of an output, in which elements are read and written one by one.
pub(super) struct Line<'s> {
    sink: &'s Sink<'s>,
    first: usize,
    stride: isize,
    len: usize,
    width: usize,
}

impl Line<'_> {
    /// Number of rows.
    pub(super) fn width(&self) -> usize {
        self.width
    }
    /// The bytes of element `at` of every row.
    pub(super) fn element(&mut self, at: usize) -> &mut [u8] {
        assert!(at < self.len, "an element beyond the row");
        let position = self.first.wrapping_add_signed(self.stride * at as isize);
        // SAFETY: whoever creates a line gives it rows that no other thread uses while the line lives, and
        // the exclusive borrow of the line allows one call at a time.
        unsafe { self.sink.elements(position, self.width) }
    }
}

/// Processes a line: the index of its first row, plus scratch memory for rows of other operands.
type LineFn<'f> = &'f (dyn Fn(&mut [Scratch; 3], usize, &mut Line<'_>) -> TaskResult + Sync);

/// Like [`for_each_row`], for ops that touch few elements of a row: rows are not gathered. `f` gets up to `width` rows at a time,
/// whose elements are neighbours if there are several.
pub(super) fn for_each_line(
    op: &'static str,
    y: RawMut<'_>,
    width: usize,
    cost: usize,
    f: LineFn<'_>,
) -> Result<()> {
    report(op, run_lines(y, width.max(1), cost, f))
}

fn run_lines(y: RawMut<'_>, width: usize, cost: usize, f: LineFn<'_>) -> TaskResult {
    let (rows, stride, len) = (count(&y.layout), y.layout.last_stride(), y.layout.last());
    // The axis before the last counts neighbouring rows.
    let before = y.layout.dims().iter().zip(y.layout.strides()).nth_back(1);
    let side = match before {
        Some((extent, 1)) => *extent,
        _ if width == 1 => 1,
        _ => return Err("rows of an output that are not neighbours are processed together".into()),
    };
    let per_side = side.div_ceil(width).max(1);
    let sink = Sink::new(y)?;
    threads::split(rows / side.max(1) * per_side, cost.saturating_mul(width.min(side)), &|range| {
        let mut scratches = Default::default();
        for i in range {
            let start = i % per_side * width;
            let (row, width) = (i / per_side * side + start, width.min(side - start));
            // `split` hands out every row once, and rows of a layout without repeated elements are disjoint.
            let first = row_position(&sink.layout, row);
            f(&mut scratches, row, &mut Line { sink: &sink, first, stride, len, width })?;
        }
        Ok(())
    })
}

/// Processes a part of a row: scratch memory, the row's index and the part's first element, and its bytes.
type PartFn<'f> = &'f (dyn Fn(&mut Scratch, (usize, usize), &mut [u8]) -> TaskResult + Sync);

/// Calls `f` for parts of at most `part` elements of every row of `y`, in parallel if the work is large enough; `cost` is the
/// work of an element of `y`.
pub(super) fn for_each_part(
    op: &'static str,
    y: RawMut<'_>,
    part: usize,
    cost: usize,
    f: PartFn<'_>,
) -> Result<()> {
    report(op, run_parts(y, part.max(1), cost, f))
}

fn run_parts(y: RawMut<'_>, part: usize, cost: usize, f: PartFn<'_>) -> TaskResult {
    let (rows, n) = (count(&y.layout), y.layout.last());
    let per_row = n.div_ceil(part);
    let sink = Sink::new(y)?;
    threads::split(rows * per_row, cost.saturating_mul(part.min(n)), &|range| {
        let (mut own, mut scratch) = (Scratch::default(), Scratch::default());
        for i in range {
            let (row, start) = (i / per_row, i % per_row * part);
            let n = part.min(n - start);
            // SAFETY: `split` hands out every part once, and parts are disjoint.
            unsafe { sink.part_of_row(row, start, n, &mut own, &mut |y| f(&mut scratch, (row, start), y)) }?;
        }
        Ok(())
    })
}

/// Like [`for_each_row`], for two outputs of the same shape: `f` gets row `i` of both.
pub(super) fn for_each_row_pair(
    op: &'static str,
    y: RawMut<'_>,
    z: RawMut<'_>,
    cost: usize,
    f: PairFn<'_>,
) -> Result<()> {
    report(op, run_row_pairs(y, z, cost, f))
}

fn run_row_pairs(y: RawMut<'_>, z: RawMut<'_>, cost: usize, f: PairFn<'_>) -> TaskResult {
    if y.layout.shape() != z.layout.shape() {
        return Err("two outputs that must have the same shape differ".into());
    }
    let rows = count(&y.layout);
    let (ys, zs) = (Sink::new(y)?, Sink::new(z)?);
    threads::split(rows, cost, &|range| {
        let (mut a, mut b, mut scratches) = (Scratch::default(), Scratch::default(), Default::default());
        for i in range {
            // SAFETY: `split` hands out every row once, and the two outputs are different slices.
            unsafe { ys.row(i, &mut a, &mut |y| zs.row(i, &mut b, &mut |z| f(&mut scratches, i, y, z))) }?;
        }
        Ok(())
    })
}

/// These rows of `x`, in row-major order, concatenated.
pub(super) fn gathered(x: &Raw<'_>, rows: &[usize]) -> Result<crate::HostBuffer<u8>> {
    let bytes = x.layout.last() * x.size;
    let mut memory = scratch::<u8>(rows.len() * bytes)?;
    let mut one = Default::default();
    if bytes > 0 {
        for (to, from) in memory.as_mut_slice().chunks_exact_mut(bytes).zip(rows) {
            to.copy_from_slice(row(x, *from, &mut one));
        }
    }
    Ok(memory)
}

#[cfg(test)]
mod tests;
