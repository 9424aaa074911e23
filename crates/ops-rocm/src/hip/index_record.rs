//! The record that kernels leave of an index out of range: one per device, for all streams.
//!
//! A kernel cannot fail. It treats the offending element as absent and records the first such index; the host reads
//! the record when it waits for the device anyway.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::allocator::Block;
use super::error::Result;
use super::staging::{fill, read};
use super::stream::Stream;

/// An index out of range, as a kernel found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFault {
    /// The number of the operation, as given to the launch.
    pub op: u32,
    /// The number of the operand, as given to the launch.
    pub operand: u32,
    /// Where in the operand the index stands.
    pub position: u64,
    /// The index.
    pub index: i64,
    /// What it must be less than.
    pub bound: u64,
}

/// Bytes of `ErrorRecord` in kernels/include/ops_index.h: state, op, operand and a reserved word of 4 bytes each, then
/// position, index and bound of 8.
const BYTES: usize = 40;
/// The state of a record that is complete.
const COMPLETE: u32 = 2;

/// The record's address, which stays the same until the device is closed.
fn address(stream: &Stream) -> Result<usize> {
    let mut record = stream.device().index_record().lock();
    if let Some(block) = &*record {
        return Ok(block.address);
    }
    let address = stream.device().enter(|hip| hip.malloc(BYTES))? as usize;
    *record = Some(Block { address, bytes: BYTES });
    // SAFETY: the memory is of this size.
    let cleared = unsafe { fill(stream, address, 0, BYTES) }.and_then(|()| stream.wait_idle());
    if let Err(error) = cleared {
        let block = record.take();
        drop(record);
        stream.device().discard(block);
        return Err(error);
    }
    Ok(address)
}

/// Permission for one launch to write to the device's record. Keep it until the launch is enqueued: its drop marks the
/// stream, so that the next wait reads the record.
#[derive(Debug)]
pub struct IndexCheck<'s> {
    stream: &'s Stream,
    address: usize,
}

impl IndexCheck<'_> {
    /// The record's address, for the kernel's arguments.
    pub fn address(&self) -> *mut c_void {
        self.address as *mut c_void
    }
}

impl Drop for IndexCheck<'_> {
    fn drop(&mut self) {
        self.stream.index_checked().store(true, Ordering::Release);
    }
}

impl Stream {
    /// The device's record, for a launch on this stream whose kernel checks indices.
    ///
    /// # Errors
    ///
    /// HIP's, when the record is made on first use.
    pub fn index_check(&self) -> Result<IndexCheck<'_>> {
        let address = address(self)?;
        Ok(IndexCheck { stream: self, address })
    }

    /// If kernels that check indices were launched on this stream since the last call, waits for them and takes the record
    /// out of the device. The first fault on a device is kept until it is taken, later ones are lost.
    ///
    /// # Errors
    ///
    /// HIP's. The record then stays.
    pub fn take_index_fault(&self) -> Result<Option<IndexFault>> {
        if !self.index_checked().swap(false, Ordering::AcqRel) {
            return Ok(None);
        }
        let taken = self.read_index_fault();
        if taken.is_err() {
            self.index_checked().store(true, Ordering::Release);
        }
        taken
    }

    fn read_index_fault(&self) -> Result<Option<IndexFault>> {
        let address = address(self)?;
        let mut bytes = [0; BYTES];
        // SAFETY: the record is of this size and lives as long as the device.
        unsafe { read(self, address, &mut bytes) }?;
        let fault = parse(&bytes);
        if fault.is_some() {
            // SAFETY: as above.
            unsafe { fill(self, address, 0, BYTES) }?;
        }
        Ok(fault)
    }
}

/// The record's content, if it is complete.
fn parse(bytes: &[u8; BYTES]) -> Option<IndexFault> {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    (word(0) == COMPLETE).then(|| IndexFault {
        op: word(4),
        operand: word(8),
        position: long(16),
        index: long(24) as i64,
        bound: long(32),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_record_is_a_fault() {
        let mut bytes = [0; BYTES];
        for (at, value) in [(0, 1), (4, 7), (8, 1), (16, 1000), (32, 50)] {
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        }
        bytes[24..32].copy_from_slice(&i64::to_le_bytes(-3));
        assert_eq!(parse(&bytes), None);
        bytes[0] = 2;
        assert_eq!(
            parse(&bytes),
            Some(IndexFault { op: 7, operand: 1, position: 1000, index: -3, bound: 50 })
        );
    }
}
