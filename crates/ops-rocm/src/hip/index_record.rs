//! The record in which kernels report an index out of range: one per stream.
//!
//! A kernel cannot fail. It treats the offending element as absent, and the first thread that finds such an
//! index records it in pinned host memory. The host reads the record after waits that happen anyway, so this
//! costs no access to the device. A slot in device memory decides which thread is the first: not every PCI
//! Express link supports atomic operations on host memory.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::{Error, Result};
use super::raw::{EMPTY, KernelMemory, RECORD_BYTES};
use super::staging::fill;
use super::stream::Stream;

/// An index out of range, as found by a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFault {
    /// The number of the operation, as given to the launch.
    pub op: u32,
    /// The number of the operand, as given to the launch.
    pub operand: u32,
    /// The position of the index in the operand.
    pub position: u64,
    /// The index.
    pub index: i64,
    /// What it must be less than.
    pub bound: u64,
}

/// Bytes at the start of a slot that mark it as claimed.
const CLAIM_BYTES: usize = 4;

/// The state of a complete record, as set by kernels.
const COMPLETE: u32 = 2;
/// The state of a record that a host thread is reading.
const TAKEN: u32 = 3;

/// Permission for one launch to report to the stream's record. Keep it until the launch is enqueued.
#[derive(Debug)]
pub struct IndexCheck<'s> {
    memory: &'s KernelMemory,
}

impl IndexCheck<'_> {
    /// The address of the record's slot, for the kernel's arguments.
    pub fn address(&self) -> *mut c_void {
        self.memory.slot as *mut c_void
    }
}

impl Stream {
    /// The stream's record, for a launch on this stream whose kernel checks indices.
    ///
    /// # Errors
    ///
    /// Errors from HIP when the record is made or taken over from the stream's former owner.
    #[inline]
    pub fn index_check(&self) -> Result<IndexCheck<'_>> {
        Ok(IndexCheck { memory: self.prepared_memory()? })
    }

    /// Takes the fault recorded by a kernel of this stream. Call it after the host has waited for that
    /// kernel. Only the first fault is kept until it is taken.
    ///
    /// # Errors
    ///
    /// Errors from HIP. The record then stays.
    pub fn take_index_fault(&self) -> Result<Option<IndexFault>> {
        let Some(memory) = self.kernel_memory().get() else { return Ok(None) };
        // SAFETY: the memory holds a record and lives as long as the device; others use its first word atomically too.
        let state = unsafe { AtomicU32::from_ptr(memory.record as *mut u32) };
        if state.compare_exchange(COMPLETE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Ok(None);
        }
        // SAFETY: as above. The record is complete, and no kernel writes it while its slot is claimed.
        let fault = parse(&unsafe { (memory.record as *const [u8; RECORD_BYTES]).read_volatile() });
        // Done before the claim ends, so that it does not overwrite the next fault.
        state.store(EMPTY, Ordering::Release);
        // SAFETY: the slot has this size and lives as long as the device.
        match unsafe { fill(self, memory.slot, 0, CLAIM_BYTES) } {
            // Once a loan has ended, no kernel reports any more.
            Ok(()) | Err(Error::LoanEnded { .. }) => Ok(Some(fault)),
            Err(error) => {
                state.store(COMPLETE, Ordering::Release);
                Err(error)
            }
        }
    }
}

/// Decodes a complete record.
fn parse(bytes: &[u8; RECORD_BYTES]) -> IndexFault {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    IndexFault { op: word(4), operand: word(8), position: long(16), index: long(24) as i64, bound: long(32) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hip::raw::SLOT_BYTES;

    #[test]
    fn a_record_is_read_as_kernels_write_it() {
        let mut bytes = [0; RECORD_BYTES];
        for (at, value) in [(0, COMPLETE), (4, 7), (8, 1), (16, 1000), (32, 50)] {
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        }
        bytes[24..32].copy_from_slice(&i64::to_le_bytes(-3));
        let fault = IndexFault { op: 7, operand: 1, position: 1000, index: -3, bound: 50 };
        assert_eq!(parse(&bytes), fault);
    }

    #[test]
    fn sizes_are_those_of_the_kernels() {
        assert_eq!(RECORD_BYTES, size_of::<ops_kernels::index::ErrorRecord>());
        assert_eq!(SLOT_BYTES, size_of::<ops_kernels::index::ErrorSlot>());
    }
}
