//! Access to rows of operands as byte slices, across threads.
//!
//! This file and `threads/crew.rs` hold the unsafe code of this backend: here, threads write disjoint
//! rows of one output. The rows are disjoint because an output's layout repeats no element and each row
//! is visited once. Nothing here is generic over element types, so it is compiled once.
use super::threads;
use super::vectors::{Fault, TaskResult, on_vector, report};
use crate::host::raw::{Raw, RawMut};
use core::marker::PhantomData;
use ops_core::{Error, Layout, Result};
use std::borrow::Cow;
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
/// Processes one run of each input and of the output.
type MapFn<'f, const N: usize> = &'f (dyn Fn([&[u8]; N], &mut [u8]) -> TaskResult + Sync);

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

/// A row of an output in which single elements are read and written.
pub(super) struct Line<'s> {
    sink: &'s Sink<'s>,
    first: usize,
    stride: isize,
    len: usize,
}

impl Line<'_> {
    /// The bytes of element `at`.
    pub(super) fn element(&mut self, at: usize) -> &mut [u8] {
        assert!(at < self.len, "an element beyond the row");
        let position = self.first.wrapping_add_signed(self.stride * at as isize);
        // SAFETY: whoever creates a line gives it a row that no other thread uses while the line lives, and
        // the exclusive borrow of the line allows one element at a time.
        unsafe { self.sink.elements(position, 1) }
    }
}

/// Processes one line: its index, plus scratch memory for rows of other operands.
type LineFn<'f> = &'f (dyn Fn(&mut [Scratch; 3], usize, &mut Line<'_>) -> TaskResult + Sync);

/// Like [`for_each_row`], for ops that touch few elements of a row: rows are not gathered.
pub(super) fn for_each_line(op: &'static str, y: RawMut<'_>, cost: usize, f: LineFn<'_>) -> Result<()> {
    report(op, run_lines(y, cost, f))
}

fn run_lines(y: RawMut<'_>, cost: usize, f: LineFn<'_>) -> TaskResult {
    let (rows, stride, len) = (count(&y.layout), y.layout.last_stride(), y.layout.last());
    let sink = Sink::new(y)?;
    threads::split(rows, cost, &|range| {
        let mut scratches = Default::default();
        for i in range {
            // `split` hands out every row once.
            let first = row_position(&sink.layout, i);
            f(&mut scratches, i, &mut Line { sink: &sink, first, stride, len })?;
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

/// Minimum elements per run: enough to hide the overhead of the loop around it.
const MIN_RUN: usize = 4096;
/// Maximum elements per run.
const MAX_RUN: usize = 1 << 16;

/// Returns the units per run for `units` units of `unit` elements: enough runs for all tasks, with a small remainder.
fn run_length(units: usize, unit: usize) -> usize {
    let tasks = threads::tasks();
    let runs = tasks * (units.saturating_mul(unit)).div_ceil(MAX_RUN * tasks);
    (units / runs).max(MIN_RUN / unit).clamp(1, units)
}

/// Calls `f(x, y)` on runs of whole rows of `unit` elements, in parallel if the work is large enough; `cost` is the work of
/// one element.
///
/// With a unit of 1, for elementwise functions, axes are merged as far as the layouts of all operands allow. A run spans
/// several rows only if all operands are contiguous.
pub(super) fn map_runs<const N: usize>(
    op: &'static str,
    x: [Raw<'_>; N],
    mut y: RawMut<'_>,
    unit: usize,
    cost: usize,
    f: MapFn<'_, N>,
) -> Result<()> {
    let len = y.layout.len();
    let flat = y.layout.is_contiguous() && x.iter().all(|x| x.layout.is_contiguous());
    if flat && len > 0 && unit > 0 {
        let run = unit * run_length(len / unit, unit);
        let whole = len / run * run;
        for (start, dims) in [(0, [len / run, run]), (whole, [1, len - whole])] {
            let part = |l: &Layout| Layout::strided(&dims, &[dims[1] as isize, 1], l.extent().start + start);
            let (ly, lx) = (part(&y.layout)?, map_layouts(&x, part)?);
            if !ly.is_empty() {
                let x = core::array::from_fn(|i| x[i].with_layout(lx[i]));
                map_each_row(op, x, y.reborrow().with_layout(ly), cost, f)?;
            }
        }
        return Ok(());
    }
    if unit != 1 {
        return map_each_row(op, x, y, cost, f);
    }
    let mut all = [&y.layout; 4];
    for (slot, x) in all[1..].iter_mut().zip(&x) {
        *slot = &x.layout;
    }
    let merged = Layout::merged(all);
    let x = core::array::from_fn(|i| x[i].with_layout(merged[i + 1]));
    map_each_row(op, x, y.with_layout(merged[0]), cost, f)
}

fn map_layouts<const N: usize>(
    x: &[Raw<'_>; N],
    part: impl Fn(&Layout) -> Result<Layout>,
) -> Result<[Layout; N]> {
    let mut layouts = x.map(|x| x.layout);
    for l in &mut layouts {
        *l = part(l)?;
    }
    Ok(layouts)
}

fn map_each_row<const N: usize>(
    op: &'static str,
    x: [Raw<'_>; N],
    y: RawMut<'_>,
    cost: usize,
    f: MapFn<'_, N>,
) -> Result<()> {
    const { assert!(N <= 3, "a task has scratch memory for rows of three operands") }
    let n = y.layout.last();
    for_each_row(op, y, n.saturating_mul(cost), &|scratch, i, out| {
        let mut free = scratch.iter_mut();
        let rows = x.each_ref().map(|x| free.next().map_or(&[][..], |s| row(x, i, s)));
        f(rows, out)
    })
}

/// The elements in row-major order: borrowed if they are contiguous, otherwise copied.
pub(super) fn packed<'a, T: ops_core::Element>(x: &Raw<'a>) -> Result<Cow<'a, [T]>> {
    let data = x.slice::<T>();
    if x.layout.is_contiguous() {
        return Ok(Cow::Borrowed(&data[x.layout.extent()]));
    }
    let mut copy = reserve(x.layout.len())?;
    copy.extend(x.layout.positions().map(|p| data[p]));
    Ok(Cow::Owned(copy))
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

/// The numbers as f32 in row-major order: borrowed if they are contiguous f32, otherwise converted.
pub(super) fn widened<'a>(x: &Raw<'a>) -> Result<Cow<'a, [f32]>> {
    if x.dtype == ops_core::DType::F32 {
        return packed::<f32>(x);
    }
    on_vector!(x.dtype, T => {
        let mut wide = zeros::<f32>(x.layout.len())?;
        report("cast", ops_simd::cast(ops_simd::Isa::best(), &packed::<T>(x)?, &mut wide, ops_simd::Store::Cached))?;
        Ok(Cow::Owned(wide))
    }, else {
        let mut wide = reserve(x.layout.len())?;
        wide.extend(x.layout.positions().map(|p| x.f64(p) as f32));
        Ok(Cow::Owned(wide))
    })
}

/// Operands that every row of a call uses, such as a norm's weight or rope's tables.
///
/// 16-bit rows use 16-bit operands unconverted: an f32 copy would evict the row from the L1 cache.
pub(super) enum RowOperand<'a, const N: usize> {
    /// Unconverted: contiguous and in the dtype of the rows.
    Unconverted([&'a [u8]; N]),
    /// Widened to f32, once per call.
    Widened([Cow<'a, [f32]>; N]),
}

impl<'a, const N: usize> RowOperand<'a, N> {
    /// Prepares operands for rows of `dtype`; an operand that is `None` becomes an empty slice.
    pub(super) fn of(dtype: ops_core::DType, operands: [Option<Raw<'a>>; N]) -> Result<Self> {
        let same = operands.each_ref().map(|operand| match operand {
            Some(operand) if operand.dtype == dtype => operand.contiguous(),
            Some(_) => None,
            // A slice of u64, so that it is aligned for every element type.
            None => Some(bytemuck::cast_slice::<u64, u8>(&[])),
        });
        // Ties of bf16 may round either way where tables have the type of the rows, and which layouts are contiguous may depend on
        // the number of rows.
        let rounds_alike = dtype != ops_core::DType::BF16 || !threads::by_row();
        if rounds_alike && same.iter().all(Option::is_some) {
            return Ok(Self::Unconverted(same.map(Option::unwrap_or_default)));
        }
        let mut wide = [const { Cow::Owned(Vec::new()) }; N];
        for (wide, operand) in wide.iter_mut().zip(&operands) {
            if let Some(operand) = operand {
                *wide = widened(operand)?;
            }
        }
        Ok(Self::Widened(wide))
    }
}

/// Capacity for `len` elements, or an error where `Vec` would abort.
pub(super) fn reserve<T>(len: usize) -> Result<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        backend: "cpu",
        bytes: len.saturating_mul(size_of::<T>()),
        detail: "scratch memory".into(),
    })?;
    Ok(v)
}

/// Memory for `len` elements with unspecified values. When dropped, it is kept for the next call.
pub(super) fn scratch<T: ops_core::Element>(len: usize) -> Result<crate::HostBuffer<T>> {
    crate::HostBuffer::new(len, "cpu")
}

/// `len` zeros, or an error where `vec!` would abort.
pub(super) fn zeros<T: ops_core::Element>(len: usize) -> Result<Vec<T>> {
    let mut v = reserve(len)?;
    v.resize(len, T::zeroed());
    Ok(v)
}

#[cfg(test)]
mod tests;
