//! Memory, transfers and waiting.
use crate::error::NAME;
use crate::hip::{DeviceMemory, Event};
use crate::{Error, HipBuffer, HipMut, HipRef, HipSpace, Result, Rocm};
use ops_core::{Backend, Element, Space, range};

impl Backend for Rocm {
    type Space = HipSpace;
    type Event = Event;

    fn name(&self) -> &'static str {
        NAME
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<HipBuffer<T>> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| Error::OutOfMemory {
            backend: NAME,
            bytes: usize::MAX,
            detail: format!("{len} elements of {}", T::DTYPE),
        })?;
        Ok(HipBuffer::new(DeviceMemory::new(self.stream(), bytes)?))
    }

    fn read<T: Element>(&self, src: HipRef<'_, T>, start: usize, dst: &mut [T]) -> Result<()> {
        range("read", start, dst.len(), src.len())?;
        let offset = src.offset() + start * size_of::<T>();
        src.memory().read_into(self.stream(), offset, bytemuck::cast_slice_mut(dst))?;
        self.late_fault()
    }

    fn write<T: Element>(&self, src: &[T], mut dst: HipMut<'_, T>, start: usize) -> Result<()> {
        range("write", start, src.len(), HipSpace::len(HipSpace::share(&dst)))?;
        Ok(dst.write(self.stream(), start, src)?)
    }

    fn synchronize(&self) -> Result<()> {
        self.stream().synchronize()?;
        self.late_fault()
    }

    fn fork(&self) -> Result<Self> {
        Ok(self.with_stream(self.stream().fork()?))
    }

    fn mark(&self) -> Result<Event> {
        Ok(self.stream().record()?)
    }

    fn wait(&self, event: &Event) -> Result<()> {
        Ok(self.stream().wait(event)?)
    }

    fn capturing(&self) -> bool {
        self.stream().is_recorded()
    }

    fn free_memory(&self) -> Option<u64> {
        self.device().free_memory()
    }

    fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<HipBuffer<T>> {
        let mut memory = self.alloc::<T>(len)?.into_memory();
        let bytes = memory.len();
        // Every bit of an element's zero is zero.
        memory.fill(self.stream(), 0, bytes, 0)?;
        Ok(HipBuffer::new(memory))
    }
}

impl Rocm {
    /// What went wrong on the device although HIP reports no error. The host must have waited for the queue.
    fn late_fault(&self) -> Result<()> {
        self.group_fault()?;
        self.index_fault()
    }

    /// The index out of range that a kernel of this queue recorded, if any; it is reported once. The host
    /// must have waited for the queue.
    pub(crate) fn index_fault(&self) -> Result<()> {
        match self.stream().take_index_fault()? {
            Some(fault) => Err(self.index_names().error(fault)),
            None => Ok(()),
        }
    }
}
