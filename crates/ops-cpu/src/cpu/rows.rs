//! Rows of operands as slices of bytes, on threads.
//!
//! The one unsafe part of this backend: threads write disjoint rows of one output. They are
//! disjoint because an output's layout repeats no element and each row is visited once. Nothing
//! here is generic over element types, so it is compiled once.
use super::threads;
use super::vectors::{Done, Fault, on_vector, report};
use crate::host::raw::{Raw, RawMut};
use core::marker::PhantomData;
use ops_core::{Error, Layout, Result};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory for one row, aligned for every element.
#[derive(Default)]
pub(super) struct Scratch(Vec<u64>);

impl Scratch {
    fn bytes(&mut self, len: usize) -> &mut [u8] {
        self.0.resize(len.div_ceil(8), 0);
        &mut bytemuck::cast_slice_mut(&mut self.0)[..len]
    }
}

/// The position of the first element of row `i`.
#[inline]
fn row_position(layout: &Layout, i: usize) -> usize {
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

/// Row `i`, in place where it stands in one piece, else gathered into `scratch`.
pub(super) fn row<'s>(x: &Raw<'s>, i: usize, scratch: &'s mut Scratch) -> &'s [u8] {
    let (first, n, stride) = (row_position(&x.layout, i), x.layout.last(), x.layout.last_stride());
    if x.layout.is_last_contiguous() {
        return if n == 0 { &[] } else { &x.bytes[first * x.size..(first + n) * x.size] };
    }
    let gathered = scratch.bytes(n * x.size);
    for (j, to) in gathered.chunks_exact_mut(x.size).enumerate() {
        let p = first.wrapping_add_signed(stride * j as isize);
        copy_element(to, &x.bytes[p * x.size..(p + 1) * x.size]);
    }
    gathered
}

/// Copies one element; the usual sizes without a call.
#[inline]
fn copy_element(to: &mut [u8], from: &[u8]) {
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

/// An output whose rows are handed to threads.
struct Sink<'a> {
    data: *mut u8,
    len: usize,
    size: usize,
    layout: Layout,
    of: PhantomData<&'a mut [u8]>,
}
// SAFETY: a `Sink` is an exclusive slice that is only reached row by row through `row`, whose
// callers keep rows apart; the elements are plain data.
unsafe impl Sync for Sink<'_> {}

impl<'a> Sink<'a> {
    /// An output that lies in its memory and repeats no element. The gate has checked this for the operand as the caller
    /// gave it; here it is checked of the layout that the kernel made of it, since the safety of threads rests on it.
    fn new(y: RawMut<'a>) -> core::result::Result<Self, Fault> {
        if y.size == 0 || !y.layout.fits(y.bytes.len() / y.size) || !y.layout.is_injective() {
            return Err("an output reaches beyond its memory or repeats an element".into());
        }
        let (data, len) = (y.bytes.as_mut_ptr(), y.bytes.len());
        Ok(Sink { data, len, size: y.size, layout: y.layout, of: PhantomData })
    }

    /// The bytes of `n` elements from position `p`.
    ///
    /// # Safety
    /// The elements belong to a row that no other thread touches at the time.
    #[allow(clippy::mut_from_ref)] // What a sink is for; see the safety contract.
    unsafe fn elements(&self, p: usize, n: usize) -> &mut [u8] {
        assert!((p + n) * self.size <= self.len);
        // SAFETY: inside the slice, as asserted; exclusive, as the caller promises.
        unsafe { core::slice::from_raw_parts_mut(self.data.add(p * self.size), n * self.size) }
    }

    /// Calls `f` with row `i`, through `scratch` where it does not stand in one piece.
    ///
    /// # Safety
    /// No two calls for the same row may overlap in time.
    unsafe fn row(&self, i: usize, scratch: &mut Scratch, f: &mut dyn FnMut(&mut [u8]) -> Done) -> Done {
        let (first, n, stride) =
            (row_position(&self.layout, i), self.layout.last(), self.layout.last_stride());
        if self.layout.is_last_contiguous() {
            // SAFETY: rows of a layout without repeated elements are disjoint; the caller keeps
            // calls for one row apart.
            return f(unsafe { self.elements(first, n) });
        }
        let position = |j: usize| first.wrapping_add_signed(stride * j as isize);
        let gathered = scratch.bytes(n * self.size);
        for (j, to) in gathered.chunks_exact_mut(self.size).enumerate() {
            // SAFETY: the element belongs to this row alone.
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

/// An output whose rows tasks write in any order, each once.
pub(super) struct Rows<'a> {
    sink: Sink<'a>,
    taken: Vec<AtomicBool>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(y: RawMut<'a>) -> core::result::Result<Self, Fault> {
        let taken = (0..count(&y.layout)).map(|_| AtomicBool::new(false)).collect();
        Ok(Rows { sink: Sink::new(y)?, taken })
    }

    /// Calls `f` with row `i`, through `scratch` where it does not stand in one piece. Each row can be written once.
    pub(super) fn write(
        &self,
        i: usize,
        scratch: &mut Scratch,
        f: &mut dyn FnMut(&mut [u8]) -> Done,
    ) -> Done {
        if self.taken.get(i).is_none_or(|taken| taken.swap(true, Ordering::AcqRel)) {
            return Err("a row of the output is written twice, or there is none".into());
        }
        // SAFETY: the flag lets every row pass once.
        unsafe { self.sink.row(i, scratch, f) }
    }
}

/// What is done with a row: its number and bytes, and memory for rows of other operands.
type RowFn<'f> = &'f (dyn Fn(&mut [Scratch; 3], usize, &mut [u8]) -> Done + Sync);
/// As [`RowFn`], for the rows of two outputs.
type PairFn<'f> = &'f (dyn Fn(&mut [Scratch; 3], usize, &mut [u8], &mut [u8]) -> Done + Sync);
/// What is done with a run of each input and of the output.
type MapFn<'f, const N: usize> = &'f (dyn Fn([&[u8]; N], &mut [u8]) -> Done + Sync);

/// Calls `f(i, row)` for every row of `y`, on threads where it pays; a row costs about `cost` elements.
///
/// The row holds the output's present values. The scratch memory is the task's own.
pub(super) fn each(op: &'static str, y: RawMut<'_>, cost: usize, f: RowFn<'_>) -> Result<()> {
    report(op, each_row(y, cost, f))
}

fn each_row(y: RawMut<'_>, cost: usize, f: RowFn<'_>) -> Done {
    let rows = count(&y.layout);
    let sink = Sink::new(y)?;
    threads::split(rows, cost, &|range| {
        let (mut own, mut lent) = (Scratch::default(), Default::default());
        for i in range {
            // SAFETY: `split` hands out every row once.
            unsafe { sink.row(i, &mut own, &mut |row| f(&mut lent, i, row)) }?;
        }
        Ok(())
    })
}

/// [`each`] for two outputs of one shape: row `i` of both.
pub(super) fn each_pair(
    op: &'static str,
    y: RawMut<'_>,
    z: RawMut<'_>,
    cost: usize,
    f: PairFn<'_>,
) -> Result<()> {
    report(op, each_row_pair(y, z, cost, f))
}

fn each_row_pair(y: RawMut<'_>, z: RawMut<'_>, cost: usize, f: PairFn<'_>) -> Done {
    if y.layout.shape() != z.layout.shape() {
        return Err("two outputs that should have one shape have two".into());
    }
    let rows = count(&y.layout);
    let (ys, zs) = (Sink::new(y)?, Sink::new(z)?);
    threads::split(rows, cost, &|range| {
        let (mut a, mut b, mut lent) = (Scratch::default(), Scratch::default(), Default::default());
        for i in range {
            // SAFETY: `split` hands out every row once; the two outputs are different slices.
            unsafe { ys.row(i, &mut a, &mut |y| zs.row(i, &mut b, &mut |z| f(&mut lent, i, y, z))) }?;
        }
        Ok(())
    })
}

/// Elements of a run at least: enough to hide the loop around it.
const RUN: usize = 4096;
/// Elements of a run at most.
const LONGEST: usize = 1 << 16;

/// Units of a run, of `units` of `unit` elements: runs enough for all tasks, and little left over.
fn run_length(units: usize, unit: usize) -> usize {
    let tasks = threads::tasks();
    let runs = tasks * (units.saturating_mul(unit)).div_ceil(LONGEST * tasks);
    (units / runs).max(RUN / unit).clamp(1, units)
}

/// Calls `f(x, y)` on runs of whole rows of `unit` elements, on threads where it pays; `cost` is that
/// of an element.
///
/// A unit of 1 is for functions that look at one element of each operand: axes merge as far as all
/// operands allow. Runs are longer than a row only where all operands are contiguous.
pub(super) fn map<const N: usize>(
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
            let (ly, lx) = (part(&y.layout)?, each_layout(&x, part)?);
            if !ly.is_empty() {
                let x = core::array::from_fn(|i| x[i].under(lx[i]));
                map_rows(op, x, y.reborrow().under(ly), cost, f)?;
            }
        }
        return Ok(());
    }
    if unit != 1 {
        return map_rows(op, x, y, cost, f);
    }
    let mut all = [&y.layout; 4];
    for (slot, x) in all[1..].iter_mut().zip(&x) {
        *slot = &x.layout;
    }
    let merged = Layout::merged(all);
    let x = core::array::from_fn(|i| x[i].under(merged[i + 1]));
    map_rows(op, x, y.under(merged[0]), cost, f)
}

fn each_layout<const N: usize>(
    x: &[Raw<'_>; N],
    part: impl Fn(&Layout) -> Result<Layout>,
) -> Result<[Layout; N]> {
    let mut layouts = x.map(|x| x.layout);
    for l in &mut layouts {
        *l = part(l)?;
    }
    Ok(layouts)
}

fn map_rows<const N: usize>(
    op: &'static str,
    x: [Raw<'_>; N],
    y: RawMut<'_>,
    cost: usize,
    f: MapFn<'_, N>,
) -> Result<()> {
    const { assert!(N <= 3, "a task has scratch memory for rows of three operands") }
    let n = y.layout.last();
    each(op, y, n.saturating_mul(cost), &|scratch, i, out| {
        let mut free = scratch.iter_mut();
        let rows = x.each_ref().map(|x| free.next().map_or(&[][..], |s| row(x, i, s)));
        f(rows, out)
    })
}

/// The elements in row-major order: in place where they stand so, else a copy, aligned as the original.
pub(super) fn packed<'a, T: ops_core::Element>(x: &Raw<'a>) -> Result<Cow<'a, [T]>> {
    let data = x.slice::<T>();
    if x.layout.is_contiguous() {
        return Ok(Cow::Borrowed(&data[x.layout.extent()]));
    }
    let mut copy = reserve(x.layout.len())?;
    copy.extend(x.layout.positions().map(|p| data[p]));
    Ok(Cow::Owned(copy))
}

/// The numbers as f32 in row-major order: in place where they are that already.
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

/// Small operands that every row of a call meets.
pub(super) enum Beside<'a, const N: usize> {
    /// In the type of the rows, where they stand.
    Same([&'a [u8]; N]),
    /// As f32.
    Wide([Cow<'a, [f32]>; N]),
}

impl<'a, const N: usize> Beside<'a, N> {
    /// Beside rows of `dtype`; of an operand that is left out, nothing.
    pub(super) fn of(dtype: ops_core::DType, operands: [Option<Raw<'a>>; N]) -> Result<Self> {
        let same = operands.each_ref().map(|operand| match operand {
            Some(operand) if operand.dtype == dtype => operand.contiguous(),
            Some(_) => None,
            // Aligned as elements of any type are.
            None => Some(bytemuck::cast_slice::<u64, u8>(&[])),
        });
        if same.iter().all(Option::is_some) {
            return Ok(Self::Same(same.map(Option::unwrap_or_default)));
        }
        let mut wide = [const { Cow::Owned(Vec::new()) }; N];
        for (wide, operand) in wide.iter_mut().zip(&operands) {
            if let Some(operand) = operand {
                *wide = widened(operand)?;
            }
        }
        Ok(Self::Wide(wide))
    }
}

/// Room for `len` elements, or an error where `Vec` would abort.
pub(super) fn reserve<T>(len: usize) -> Result<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        backend: "cpu",
        bytes: len.saturating_mul(size_of::<T>()),
        detail: "scratch memory".into(),
    })?;
    Ok(v)
}

/// Memory for `len` elements of unspecified values, kept for the next call when it is dropped.
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
mod tests {
    use super::*;
    use ops_core::DType;

    fn output<'a>(bytes: &'a mut [u8], dims: &[usize], strides: &[isize]) -> RawMut<'a> {
        let layout = Layout::strided(dims, strides, 0).unwrap();
        RawMut { bytes, size: 1, dtype: DType::U8, layout }
    }

    #[test]
    fn an_output_whose_rows_coincide_is_refused_before_any_thread_sees_it() {
        let mut bytes = [7u8; 64];
        let untouched =
            |_: &mut [Scratch; 3], _: usize, _: &mut [u8]| -> Done { unreachable!("a row was handed out") };
        // A broadcast output: all rows are one. And rows that share elements, and rows outside the memory.
        for (dims, strides) in [([64, 8], [0, 1]), ([8, 8], [4, 1]), ([9, 8], [8, 1])] {
            let done = each("copy", output(&mut bytes, &dims, &strides), 1 << 20, &untouched);
            assert!(
                matches!(done, Err(Error::Device { call: "copy", .. })),
                "{dims:?} {strides:?}: {done:?}"
            );
        }
        let other = |_: &mut [Scratch; 3], _: usize, _: &mut [u8], _: &mut [u8]| -> Done { unreachable!() };
        let mut more = [7u8; 64];
        let (y, z) = (output(&mut bytes, &[8, 8], &[8, 1]), output(&mut more, &[4, 16], &[16, 1]));
        assert!(each_pair("add_rms_norm", y, z, 1 << 20, &other).is_err(), "outputs of two shapes");
    }

    #[test]
    fn a_row_is_written_once() {
        let mut bytes = [0u8; 16];
        let rows = Rows::new(output(&mut bytes, &[2, 8], &[8, 1])).unwrap();
        let fill = |i: usize| {
            rows.write(i, &mut Scratch::default(), &mut |row| {
                row.fill(1);
                Ok(())
            })
        };
        assert!(fill(1).is_ok() && fill(1).is_err() && fill(2).is_err() && fill(0).is_ok());
    }

    #[test]
    fn a_fault_in_a_row_is_the_error_of_the_call() {
        let mut bytes = [0u8; 64];
        let x =
            Raw { bytes: &[1; 64], size: 1, dtype: DType::U8, layout: Layout::contiguous(&[8, 8]).unwrap() };
        for strides in [[8, 1], [1, 8]] {
            let done =
                map("silu", [x], output(&mut bytes, &[8, 8], &strides), 8, 1 << 20, &|_, _| Err("no".into()));
            assert!(matches!(done, Err(Error::Device { call: "silu", .. })), "{done:?}");
        }
    }
}
