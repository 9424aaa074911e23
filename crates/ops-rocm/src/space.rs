//! Tensors in the memory of an AMD GPU.
use crate::hip::{DeviceMemory, Stream};
use core::marker::PhantomData;
use ops_core::{Element, Space};

/// The memory of AMD GPUs.
#[derive(Clone, Copy, Debug)]
pub struct HipSpace;

/// Owned device memory for elements. It is freed after the work that uses it.
#[derive(Debug)]
pub struct HipBuffer<T> {
    memory: DeviceMemory,
    len: usize,
    element: PhantomData<fn() -> T>,
}

/// Contiguous elements in device memory, for reading.
#[derive(Debug)]
pub struct HipRef<'a, T> {
    memory: &'a DeviceMemory,
    start: usize,
    len: usize,
    element: PhantomData<fn() -> T>,
}

/// Contiguous elements in device memory, for writing: no other view covers them.
#[derive(Debug)]
pub struct HipMut<'a, T> {
    memory: &'a DeviceMemory,
    start: usize,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for HipRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for HipRef<'_, T> {}

impl<T: Element> HipBuffer<T> {
    /// The memory as elements, as many as fit.
    pub fn new(memory: DeviceMemory) -> Self {
        let len = memory.len() / size_of::<T>().max(1);
        HipBuffer { memory, len, element: PhantomData }
    }
    /// The memory.
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }
    /// The memory, for bytes of any kind.
    pub fn into_memory(self) -> DeviceMemory {
        self.memory
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The stream on which use costs nothing extra.
    pub fn home(&self) -> &Stream {
        self.memory.home()
    }
}

impl<'a, T: Element> HipRef<'a, T> {
    /// The memory that holds the elements; [`DeviceMemory::access`] makes it available to a kernel.
    pub fn memory(&self) -> &'a DeviceMemory {
        self.memory
    }
    /// Offset of the first element in it, in bytes.
    pub fn offset(&self) -> usize {
        self.start * size_of::<T>()
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Element> HipMut<'_, T> {
    pub(crate) fn write(&mut self, stream: &Stream, at: usize, elements: &[T]) -> crate::hip::Result<()> {
        let offset = (self.start + at) * size_of::<T>();
        self.memory.write_part(stream, offset, bytemuck::cast_slice(elements))
    }
}

impl Space for HipSpace {
    type Buffer<T: Element> = HipBuffer<T>;
    type Ref<'a, T: Element> = HipRef<'a, T>;
    type Mut<'a, T: Element> = HipMut<'a, T>;

    fn len<T: Element>(view: HipRef<'_, T>) -> usize {
        view.len
    }
    fn borrow<T: Element>(buffer: &HipBuffer<T>) -> HipRef<'_, T> {
        HipRef { memory: &buffer.memory, start: 0, len: buffer.len, element: PhantomData }
    }
    fn borrow_mut<T: Element>(buffer: &mut HipBuffer<T>) -> HipMut<'_, T> {
        HipMut { memory: &buffer.memory, start: 0, len: buffer.len, element: PhantomData }
    }
    fn share<'s, T: Element>(view: &'s HipMut<'_, T>) -> HipRef<'s, T> {
        HipRef { memory: view.memory, start: view.start, len: view.len, element: PhantomData }
    }
    fn reborrow<'s, T: Element>(view: &'s mut HipMut<'_, T>) -> HipMut<'s, T> {
        HipMut { memory: view.memory, start: view.start, len: view.len, element: PhantomData }
    }
    fn shorten<'s, 'l: 's, T: Element>(view: HipRef<'l, T>) -> HipRef<'s, T> {
        view
    }
    fn split_at<T: Element>(view: Self::Mut<'_, T>, mid: usize) -> (Self::Mut<'_, T>, Self::Mut<'_, T>) {
        // Beyond the end, the second part is empty.
        let mid = mid.min(view.len);
        let part = |start, len| HipMut { memory: view.memory, start, len, element: PhantomData };
        (part(view.start, mid), part(view.start + mid, view.len - mid))
    }
    fn bytes<'a, T: Element>(view: Self::Ref<'a, T>) -> Self::Ref<'a, u8> {
        let size = size_of::<T>();
        HipRef { memory: view.memory, start: view.start * size, len: view.len * size, element: PhantomData }
    }
    fn bytes_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Self::Mut<'a, u8> {
        let size = size_of::<T>();
        HipMut { memory: view.memory, start: view.start * size, len: view.len * size, element: PhantomData }
    }
    fn typed<'a, T: Element>(bytes: Self::Ref<'a, u8>) -> Option<Self::Ref<'a, T>> {
        let (start, len) = elements::<T>(bytes.start, bytes.len)?;
        Some(HipRef { memory: bytes.memory, start, len, element: PhantomData })
    }
    fn typed_mut<'a, T: Element>(bytes: Self::Mut<'a, u8>) -> Option<Self::Mut<'a, T>> {
        let (start, len) = elements::<T>(bytes.start, bytes.len)?;
        Some(HipMut { memory: bytes.memory, start, len, element: PhantomData })
    }
    fn into_bytes<T: Element>(buffer: HipBuffer<T>) -> HipBuffer<u8> {
        HipBuffer::new(buffer.into_memory())
    }
    fn aligned(bytes: Self::Ref<'_, u8>, align: usize) -> bool {
        // An allocation is aligned to at least 16 bytes, which is enough for every element.
        bytes.start.is_multiple_of(align)
    }
}

/// A range of bytes as a range of elements, if it starts and ends on element boundaries.
fn elements<T: Element>(start: usize, len: usize) -> Option<(usize, usize)> {
    let size = size_of::<T>().max(1);
    (start.is_multiple_of(size) && len.is_multiple_of(size)).then_some((start / size, len / size))
}
