//! Owned host memory.
use bytemuck::{Pod, Zeroable};
use core::marker::PhantomData;
use core::ops::Deref;
use ops_core::{Element, Error, HostMemory, Result};

/// A cache line: the unit, and the alignment, of owned memory.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Elements in host memory, aligned to 64 bytes; or memory that is shared with others.
///
/// Shared memory is copied when it is first written.
pub struct HostBuffer<T: Element>(Memory<T>);

enum Memory<T: Element> {
    Owned { lines: Vec<Line>, len: usize, of: PhantomData<T> },
    Shared(HostMemory<T>),
}

impl<T: Element> HostBuffer<T> {
    /// `len` zeros, on behalf of `backend`.
    pub(crate) fn zeroed(len: usize, backend: &'static str) -> Result<Self> {
        let bytes = len.saturating_mul(size_of::<T>());
        let lines = bytemuck::try_zeroed_vec(bytes.div_ceil(size_of::<Line>()))
            .map_err(|()| Error::OutOfMemory { backend, bytes, detail: String::new() })?;
        Ok(HostBuffer(Memory::Owned { lines, len, of: PhantomData }))
    }

    /// Memory that others may read too.
    pub(crate) fn shared(memory: HostMemory<T>) -> Self {
        HostBuffer(Memory::Shared(memory))
    }

    /// The elements.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        match &self.0 {
            Memory::Owned { lines, len, .. } => {
                bytemuck::cast_slice(&bytemuck::cast_slice::<Line, u8>(lines)[..len * size_of::<T>()])
            }
            Memory::Shared(memory) => (**memory).as_ref(),
        }
    }

    /// The elements, to be written; empty if shared memory cannot be copied for lack of room, so
    /// that whatever was to be written there is out of bounds.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        if let Memory::Shared(memory) = &self.0 {
            let source = (**memory).as_ref();
            match Self::zeroed(source.len(), "host") {
                Ok(mut own) => {
                    own.as_mut_slice().copy_from_slice(source);
                    *self = own;
                }
                Err(_) => return &mut [],
            }
        }
        match &mut self.0 {
            Memory::Owned { lines, len, .. } => bytemuck::cast_slice_mut(
                &mut bytemuck::cast_slice_mut::<Line, u8>(lines)[..*len * size_of::<T>()],
            ),
            Memory::Shared(_) => &mut [],
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
    fn memory_is_aligned_and_zero_for_every_element() {
        let b = HostBuffer::<f32>::zeroed(5, "test").unwrap();
        assert_eq!((&b[..], b.as_ptr() as usize % 64), (&[0.0; 5][..], 0));
        assert_eq!(HostBuffer::<BlockQ8_0>::zeroed(3, "test").unwrap().len(), 3);
        assert!(HostBuffer::<f64>::zeroed(0, "test").unwrap().is_empty());
    }

    #[test]
    fn absurd_sizes_are_errors() {
        for len in [usize::MAX, usize::MAX / 8, isize::MAX as usize] {
            assert!(matches!(HostBuffer::<f64>::zeroed(len, "test"), Err(Error::OutOfMemory { .. })));
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
