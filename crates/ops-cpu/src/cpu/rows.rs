//! Rows of tensors as slices, on threads.
//!
//! The one unsafe part of this backend: threads write disjoint rows of one output. They are
//! disjoint because an output's layout repeats no element and each row is visited once.
use super::threads;
use crate::Host;
use core::marker::PhantomData;
use ops_core::{Element, Error, Layout, Result, TensorMut, TensorRef, View};
use std::borrow::Cow;

/// The rows along the last axis of an operand.
pub(super) struct Rows<'a, T> {
    data: &'a [T],
    layout: Layout,
}

impl<'a, T: Element> Rows<'a, T> {
    pub(super) fn of(x: &TensorRef<'a, Host, T>) -> Self {
        Self::with(x, *x.layout())
    }

    /// Under another layout that lies inside the operand's.
    pub(super) fn with(x: &TensorRef<'a, Host, T>, layout: Layout) -> Self {
        Rows { data: x.data(), layout }
    }

    /// Row `i`, in place where it stands in one piece, else gathered into `scratch`.
    #[inline]
    pub(super) fn get<'s>(&'s self, i: usize, scratch: &'s mut Vec<T>) -> &'s [T] {
        let first = row_position(&self.layout, i);
        let n = self.layout.last();
        if self.layout.is_last_contiguous() {
            return if n == 0 { &[] } else { &self.data[first..first + n] };
        }
        let stride = self.layout.last_stride();
        scratch.clear();
        scratch.extend((0..n).map(|j| self.data[first.wrapping_add_signed(stride * j as isize)]));
        scratch
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

/// An output whose rows are handed to threads.
struct Sink<'a, T> {
    data: *mut T,
    len: usize,
    layout: Layout,
    of: PhantomData<&'a mut [T]>,
}
// SAFETY: a `Sink` is an exclusive slice that is only reached row by row through `row`, whose
// callers keep rows apart; `T` is plain data.
unsafe impl<T: Element> Sync for Sink<'_, T> {}

impl<'a, T: Element> Sink<'a, T> {
    fn new(y: &'a mut [T], layout: Layout) -> Self {
        debug_assert!(layout.fits(y.len()) && layout.is_injective());
        Sink { data: y.as_mut_ptr(), len: y.len(), layout, of: PhantomData }
    }

    /// Calls `f` with row `i`, through `scratch` where it does not stand in one piece.
    ///
    /// # Safety
    /// No two calls for the same row may overlap in time.
    unsafe fn row(&self, i: usize, scratch: &mut Vec<T>, f: impl FnOnce(&mut [T])) {
        let (first, n, stride) =
            (row_position(&self.layout, i), self.layout.last(), self.layout.last_stride());
        let in_place = self.layout.is_last_contiguous();
        let position = |j: usize| {
            let p = first.wrapping_add_signed(stride * j as isize);
            assert!(p < self.len);
            p
        };
        // One call of `f` for both ways: its code need not be there twice.
        let row = if in_place {
            assert!(first + n <= self.len);
            // SAFETY: the row lies inside the slice, as asserted; rows of a layout without repeated
            // elements are disjoint, and the caller keeps calls for one row apart.
            unsafe { core::slice::from_raw_parts_mut(self.data.add(first), n) }
        } else {
            scratch.clear();
            // SAFETY: `position` is inside the slice; the element belongs to this row alone.
            scratch.extend((0..n).map(|j| unsafe { self.data.add(position(j)).read() }));
            &mut scratch[..]
        };
        f(row);
        if !in_place {
            for (j, v) in scratch.iter().enumerate() {
                // SAFETY: as above.
                unsafe { self.data.add(position(j)).write(*v) };
            }
        }
    }
}

/// Calls `f(state, i, row)` for every row of `y`, on threads where it pays.
///
/// A row costs about `cost` elements; `state` makes what a task keeps between rows. The row holds
/// the output's present values.
pub(super) fn each<T: Element, S>(
    y: &mut TensorMut<'_, Host, T>,
    cost: usize,
    state: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, usize, &mut [T]) + Sync,
) {
    let layout = *y.layout();
    each_under(y, layout, cost, state, f);
}

/// [`each`], with the rows of another layout over the same elements.
pub(super) fn each_under<T: Element, S>(
    y: &mut TensorMut<'_, Host, T>,
    layout: Layout,
    cost: usize,
    state: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, usize, &mut [T]) + Sync,
) {
    let sink = Sink::new(y.data_mut(), layout);
    threads::split(count(&layout), cost, &|rows| {
        let (mut state, mut scratch) = (state(), Vec::new());
        for i in rows {
            // SAFETY: `split` hands out every row once.
            unsafe { sink.row(i, &mut scratch, |row| f(&mut state, i, row)) };
        }
    });
}

/// [`each`] for two outputs of one shape: row `i` of both.
pub(super) fn each_pair<T: Element, S>(
    y: &mut TensorMut<'_, Host, T>,
    z: &mut TensorMut<'_, Host, T>,
    cost: usize,
    state: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, usize, &mut [T], &mut [T]) + Sync,
) {
    let (ly, lz) = (*y.layout(), *z.layout());
    let (ys, zs) = (Sink::new(y.data_mut(), ly), Sink::new(z.data_mut(), lz));
    threads::split(count(&ly), cost, &|rows| {
        let (mut state, mut a, mut b) = (state(), Vec::new(), Vec::new());
        for i in rows {
            // SAFETY: `split` hands out every row once; the two outputs are different slices.
            unsafe { ys.row(i, &mut a, |y| zs.row(i, &mut b, |z| f(&mut state, i, y, z))) };
        }
    });
}

/// The elements in row-major order: in place where they stand so, else a copy.
pub(super) fn packed<'a, T: Element>(x: &TensorRef<'a, Host, T>) -> Result<Cow<'a, [T]>> {
    let (layout, data) = (*x.layout(), x.data());
    if layout.is_contiguous() {
        return Ok(Cow::Borrowed(&data[layout.extent()]));
    }
    let mut copy = scratch(layout.len())?;
    copy.extend(layout.positions().map(|p| data[p]));
    Ok(Cow::Owned(copy))
}

/// Lets `f` write the elements in row-major order: in place where they stand so, else through a copy.
pub(super) fn with_packed<T: Element>(
    y: &mut TensorMut<'_, Host, T>,
    f: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<()> {
    let layout = *y.layout();
    if layout.is_contiguous() {
        return f(&mut y.data_mut()[layout.extent()]);
    }
    let mut copy = scratch(layout.len())?;
    copy.resize(layout.len(), T::zeroed());
    f(&mut copy)?;
    let data = y.data_mut();
    layout.positions().zip(&copy).for_each(|(p, v)| data[p] = *v);
    Ok(())
}

/// Room for `len` elements, or an error where `Vec` would abort.
pub(super) fn scratch<T: Element>(len: usize) -> Result<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        backend: "cpu",
        bytes: len.saturating_mul(size_of::<T>()),
        detail: "scratch memory".into(),
    })?;
    Ok(v)
}
