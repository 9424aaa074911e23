//! Scratch arrays that a thread reuses from call to call.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// A cache line, the alignment of every scratch array.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line([u8; 64]);

impl Line {
    /// Sixty-four zero bytes.
    pub(crate) const ZERO: Self = Self([0; 64]);
}

/// Numbers of which no vector crosses a cache line.
#[repr(align(64))]
pub(crate) struct Aligned<T>(pub(crate) T);

/// Cache lines for `len` elements.
fn lines<T>(len: usize) -> usize {
    len.saturating_mul(size_of::<T>()).div_ceil(64)
}

/// Maximum arrays kept per thread; no call uses more at once.
const MAX_KEPT: usize = 5;

thread_local! {
    static FREE: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// A cache-line-aligned array of `T` with unspecified contents. The size of `T` divides a line's or is a multiple of it. On
/// drop, the array returns to its thread.
pub(crate) struct Scratch<T> {
    lines: Vec<Line>,
    len: usize,
    of: std::marker::PhantomData<T>,
}

impl<T: bytemuck::Pod> Scratch<T> {
    /// Allocates an array of `len` elements.
    pub(crate) fn new(len: usize) -> Self {
        // `Vec` reports a capacity that the allocator cannot provide, as for any other allocation.
        let count = lines::<T>(len);
        let mut kept = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten().unwrap_or_default();
        if kept.len() < count {
            kept.resize(count, Line::ZERO);
        }
        Self { lines: kept, len, of: std::marker::PhantomData }
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        // A thread that is exiting has nowhere to keep it.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < MAX_KEPT {
                free.push(lines);
            }
        });
    }
}

impl<T: bytemuck::Pod> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &bytemuck::cast_slice(&self.lines[..lines::<T>(self.len)])[..self.len]
    }
}

impl<T: bytemuck::Pod> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut bytemuck::cast_slice_mut(&mut self.lines[..lines::<T>(self.len)])[..self.len]
    }
}
