//! What the kernels of a stream keep from launch to launch: the record of an index out of range, and the
//! counters by which blocks that share a piece of work determine which of them is the last.

use std::ffi::c_void;

use super::error::Result;
use super::raw::{ARRIVAL_BYTES, EMPTY, KernelMemory, RECORD_BYTES};
use super::staging::{fill, write};
use super::stream::Stream;

impl Stream {
    /// The address of 4096 counters of 32 bits in device memory, for a launch on this stream. They are 0 between launches.
    ///
    /// # Errors
    ///
    /// Errors from HIP when the counters are made or taken over from the stream's former owner.
    #[inline]
    pub fn arrivals(&self) -> Result<*mut c_void> {
        Ok(self.prepared_memory()?.arrivals() as *mut c_void)
    }

    /// The memory of the stream's kernels, ready for the stream's current owner.
    #[inline]
    pub(super) fn prepared_memory(&self) -> Result<&KernelMemory> {
        match self.kernel_memory().get() {
            Some(memory) => Ok(memory),
            None => self.prepare_memory(),
        }
    }

    #[cold]
    fn prepare_memory(&self) -> Result<&KernelMemory> {
        let mut kept = self.track().kernel_memory.lock();
        if self.kernel_memory().get().is_none() {
            let (memory, is_new) = match *kept {
                Some(memory) => (memory, false),
                None => self.device().take_kernel_memory()?,
            };
            // If the following fails, the stream keeps the memory for the next try.
            *kept = Some(memory);
            let claim_and_record: Vec<u8> =
                [0u64, memory.record as u64].into_iter().flat_map(u64::to_ne_bytes).collect();
            // In stream order, this overwrites what the stream's former owner left, or is about to write.
            // SAFETY: the memory has these sizes and lives as long as the device.
            unsafe {
                if !is_new {
                    fill(self, memory.record, EMPTY as u8, RECORD_BYTES)?;
                }
                write(self, memory.slot, &claim_and_record)?;
                fill(self, memory.arrivals(), 0, ARRIVAL_BYTES)?;
            }
            let _ = self.kernel_memory().set(memory);
        }
        drop(kept);
        self.prepared_memory()
    }
}
