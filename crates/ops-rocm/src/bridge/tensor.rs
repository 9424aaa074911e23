//! Views of memory that `rocm-rs` owns.
use crate::hip::{self, Stream};
use crate::{HipBuffer, HipSpace, Result};
use ops_core::{Element, Layout, Space, TensorMut, TensorRef};
use rocm_rs::hip::DeviceMemory;
use std::marker::PhantomData;

/// `DeviceMemory` as a tensor, for reading.
#[derive(Debug)]
pub struct Borrowed<'m, T> {
    buffer: HipBuffer<T>,
    layout: Layout,
    memory: PhantomData<&'m DeviceMemory<T>>,
}

/// `DeviceMemory` as a tensor, for writing.
#[derive(Debug)]
pub struct BorrowedMut<'m, T> {
    buffer: HipBuffer<T>,
    layout: Layout,
    memory: PhantomData<&'m mut DeviceMemory<T>>,
}

impl<'m, T: Element> Borrowed<'m, T> {
    pub(super) fn new(home: &Stream, memory: &'m DeviceMemory<T>, layout: Layout) -> Result<Self> {
        let borrowed = Borrowed { buffer: borrow(home, memory), layout, memory: PhantomData };
        borrowed.view()?;
        Ok(borrowed)
    }

    /// The tensor.
    ///
    /// # Errors
    /// The shape has more elements than the memory.
    pub fn view(&self) -> Result<TensorRef<'_, HipSpace, T>> {
        TensorRef::new(HipSpace::borrow(&self.buffer), self.layout)
    }
}

impl<'m, T: Element> BorrowedMut<'m, T> {
    pub(super) fn new(home: &Stream, memory: &'m mut DeviceMemory<T>, layout: Layout) -> Result<Self> {
        let mut borrowed = BorrowedMut { buffer: borrow(home, memory), layout, memory: PhantomData };
        borrowed.view()?;
        Ok(borrowed)
    }

    /// The tensor.
    ///
    /// # Errors
    /// The shape has more elements than the memory.
    pub fn view(&mut self) -> Result<TensorMut<'_, HipSpace, T>> {
        TensorMut::new(HipSpace::borrow_mut(&mut self.buffer), self.layout)
    }
}

fn borrow<T: Element>(home: &Stream, memory: &DeviceMemory<T>) -> HipBuffer<T> {
    // SAFETY: the memory is live for the lifetime of the view made from it, and is freed by `hipFree`, which
    // waits for the work that uses it.
    HipBuffer::new(unsafe { hip::DeviceMemory::borrow_raw(home, memory.as_ptr(), memory.size()) })
}
