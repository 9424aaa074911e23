//! Owned host memory.
use super::recycle::Chunk;
use core::marker::PhantomData;
use core::ops::Deref;
use ops_core::{Element, Error, HostMemory, Result};

/// Elements in host memory: owned, or shared with other owners.
///
/// Backends allocate memory that is aligned to 64 bytes. When it is dropped, it is kept for later buffers, up to 1 GiB in total. A
/// buffer that is made of a `Vec` uses the vector's memory, which is aligned for its elements. Shared memory is copied on the first
/// write.
///
/// ```
/// use rocm_ops::HostBuffer;
///
/// let data = vec![1.0f32, 2.0];
/// let at = data.as_ptr();
/// let buffer = HostBuffer::from(data);
/// assert_eq!(buffer.into_vec()?.as_ptr(), at);
/// # Ok::<(), rocm_ops::Error>(())
/// ```
pub struct HostBuffer<T: Element>(Memory<T>);

enum Memory<T: Element> {
    Owned { chunk: Chunk, len: usize, marker: PhantomData<T> },
    Shared(HostMemory<T>),
}

impl<T: Element> HostBuffer<T> {
    /// Allocates `len` elements with unspecified values; errors name `backend`.
    pub(crate) fn new(len: usize, backend: &'static str) -> Result<Self> {
        let bytes = len.saturating_mul(size_of::<T>());
        let chunk = Chunk::new(bytes).ok_or(Error::OutOfMemory { backend, bytes, detail: String::new() })?;
        Ok(HostBuffer(Memory::Owned { chunk, len, marker: PhantomData }))
    }

    /// Wraps memory that others may also read.
    pub(crate) fn shared(memory: HostMemory<T>) -> Self {
        HostBuffer(Memory::Shared(memory))
    }

    /// Converts to bytes without a copy.
    pub(crate) fn into_bytes(mut self) -> HostBuffer<u8> {
        HostBuffer(match &mut self.0 {
            Memory::Owned { chunk, len, .. } => {
                let chunk = core::mem::replace(chunk, Chunk::Lines(Vec::new()));
                let len = core::mem::take(len) * size_of::<T>();
                Memory::Owned { chunk, len, marker: PhantomData }
            }
            Memory::Shared(memory) => Memory::Shared(std::sync::Arc::new(AsBytes(memory.clone()))),
        })
    }

    /// The elements as a vector.
    ///
    /// Without a copy if the buffer was made of a `Vec<T>`. Else the elements are copied: a `Vec` cannot own memory that is aligned
    /// to 64 bytes, as that of a backend is, or that has other owners.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn into_vec(mut self) -> Result<Vec<T>> {
        if let Memory::Owned { chunk: Chunk::Adopted(vec), len, .. } = &mut self.0
            && let Some(vec) = vec.as_any_mut().downcast_mut::<Vec<T>>()
        {
            *len = 0;
            return Ok(core::mem::take(vec));
        }
        let mut vec = Vec::new();
        vec.try_reserve_exact(self.len()).map_err(|_| Error::OutOfMemory {
            backend: "host",
            bytes: self.len().saturating_mul(size_of::<T>()),
            detail: String::new(),
        })?;
        vec.extend_from_slice(&self);
        Ok(vec)
    }

    /// The elements.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        match &self.0 {
            Memory::Owned { chunk, len, .. } => bytemuck::cast_slice(&chunk.bytes()[..len * size_of::<T>()]),
            Memory::Shared(memory) => (**memory).as_ref(),
        }
    }

    /// The elements, for writing. If shared memory cannot be copied because memory is exhausted, the slice is empty, so
    /// writes to it are out of bounds.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        if let Memory::Shared(memory) = &self.0 {
            let source = (**memory).as_ref();
            match Self::new(source.len(), "host") {
                Ok(mut own) => {
                    own.as_mut_slice().copy_from_slice(source);
                    *self = own;
                }
                Err(_) => return &mut [],
            }
        }
        match &mut self.0 {
            Memory::Owned { chunk, len, .. } => {
                bytemuck::cast_slice_mut(&mut chunk.bytes_mut()[..*len * size_of::<T>()])
            }
            Memory::Shared(_) => &mut [],
        }
    }
}

/// Uses the memory of the vector, without a copy.
impl<T: Element> From<Vec<T>> for HostBuffer<T> {
    fn from(vec: Vec<T>) -> Self {
        let len = vec.len();
        HostBuffer(Memory::Owned { chunk: Chunk::Adopted(Box::new(vec)), len, marker: PhantomData })
    }
}

/// Shared elements viewed as bytes.
struct AsBytes<T: Element>(HostMemory<T>);

impl<T: Element> AsRef<[u8]> for AsBytes<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice((*self.0).as_ref())
    }
}

impl<T: Element> Drop for HostBuffer<T> {
    fn drop(&mut self) {
        if let Memory::Owned { chunk, .. } = &mut self.0 {
            core::mem::replace(chunk, Chunk::Lines(Vec::new())).recycle();
        }
    }
}

impl<T: Element> Deref for HostBuffer<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::quant::BlockQ8_0;
    use std::sync::Arc;

    #[test]
    fn memory_is_aligned_for_every_element() {
        let b = HostBuffer::<f32>::new(5, "test").unwrap();
        assert_eq!((b.len(), b.as_ptr() as usize % 64), (5, 0));
        assert_eq!(HostBuffer::<BlockQ8_0>::new(3, "test").unwrap().len(), 3);
        assert!(HostBuffer::<f64>::new(0, "test").unwrap().is_empty());
    }

    #[test]
    fn bytes_of_memory_are_the_same_memory() {
        let mut b = HostBuffer::<f32>::new(3, "test").unwrap();
        b.as_mut_slice().copy_from_slice(&[1.0, 2.0, 3.0]);
        let at = b.as_ptr().cast::<u8>();
        let bytes = b.into_bytes();
        assert_eq!((bytes.as_ptr(), bytes.len()), (at, 12));
        let owner = Arc::new(vec![1.0f32, 2.0]);
        let bytes = HostBuffer::shared(owner.clone()).into_bytes();
        assert_eq!((bytes.as_ptr(), bytes.len()), (owner.as_ptr().cast(), 8));
    }

    #[test]
    fn a_vector_goes_in_and_comes_out_without_a_copy() {
        let mut vec = Vec::with_capacity(7);
        vec.extend([1.0f32, 2.0, 3.0]);
        let at = vec.as_ptr();
        let mut b = HostBuffer::from(vec);
        b.as_mut_slice()[1] = 5.0;
        assert_eq!((b.as_ptr(), &b[..]), (at, &[1.0, 5.0, 3.0][..]));
        let vec = b.into_vec().unwrap();
        assert_eq!((vec.as_ptr(), vec.capacity(), &vec[..]), (at, 7, &[1.0, 5.0, 3.0][..]));
        assert!(HostBuffer::<f64>::from(Vec::new()).into_vec().unwrap().is_empty());
    }

    #[test]
    fn other_memory_is_copied_into_a_vector() {
        let mut b = HostBuffer::<i32>::new(2, "test").unwrap();
        b.as_mut_slice().copy_from_slice(&[1, 2]);
        assert_eq!(b.into_vec().unwrap(), [1, 2]);
        assert_eq!(HostBuffer::shared(Arc::new(vec![3i64])).into_vec().unwrap(), [3]);
        // A `Vec<u8>` cannot own the memory of a `Vec<i16>`.
        let bytes = HostBuffer::from(vec![1i16, 2]).into_bytes();
        assert_eq!(bytes.into_vec().unwrap(), [1i16, 2].map(i16::to_ne_bytes).concat());
    }

    #[test]
    fn memory_of_a_vector_is_not_kept_for_others() {
        // As many bytes as a class, most of them at addresses that no buffer may have.
        let vecs: Vec<_> = (0..8).map(|_| vec![0u8; 1 << 10]).collect();
        vecs.into_iter().for_each(|vec| drop(HostBuffer::from(vec)));
        let all: Vec<_> = (0..64).map(|_| HostBuffer::<u8>::new(1 << 10, "test").unwrap()).collect();
        assert!(all.iter().all(|b| b.as_ptr().addr().is_multiple_of(64)));
    }

    #[test]
    fn absurd_sizes_are_errors() {
        for len in [usize::MAX, usize::MAX / 8, isize::MAX as usize] {
            assert!(matches!(HostBuffer::<f64>::new(len, "test"), Err(Error::OutOfMemory { .. })));
        }
    }

    #[test]
    fn shared_memory_is_read_in_place_and_copied_on_write() {
        let owner = Arc::new(vec![1.0f32, 2.0]);
        let mut b = HostBuffer::shared(owner.clone());
        assert_eq!(b.as_ptr(), owner.as_ptr());
        b.as_mut_slice()[0] = 9.0;
        assert_eq!((&b[..], &owner[..]), (&[9.0, 2.0][..], &[1.0, 2.0][..]));
    }
}
