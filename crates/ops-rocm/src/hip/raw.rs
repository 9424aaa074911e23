//! HIP's handles of streams and events.
use std::sync::atomic::{AtomicU64, Ordering};

use hip_sys::hip::{hipEvent_t, hipStream_t};

/// HIP's handle of a stream, with a number that is never reused in this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawStream {
    pub(super) handle: hipStream_t,
    pub(super) id: u64,
}

// SAFETY: HIP's functions take a stream's handle from any thread; the pointer is never followed here.
unsafe impl Send for RawStream {}
// SAFETY: as above.
unsafe impl Sync for RawStream {}

impl RawStream {
    pub(super) fn new(handle: hipStream_t) -> RawStream {
        RawStream { handle, id: next_stream_id() }
    }
}

/// A number that no stream of this process has had before.
pub(super) fn next_stream_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Bytes of `ErrorRecord` in kernels/include/ops_index.h: state, op, operand and a reserved word of 4 bytes each, then
/// position, index and bound of 8.
pub(super) const RECORD_BYTES: usize = 40;
/// The state of an empty record.
pub(super) const EMPTY: u32 = 0;
/// Bytes of `ErrorSlot` in the same file: whether it is claimed and a reserved word of 4 bytes each, then the record's
/// address of 8.
pub(super) const SLOT_BYTES: usize = 16;

/// Counters, of 32 bits, by which the blocks of a kernel determine which of them is the last.
pub(crate) const ARRIVALS: usize = 4096;
/// Bytes of these counters.
pub(super) const ARRIVAL_BYTES: usize = 4 * ARRIVALS;
/// Bytes of device memory that the kernels of one stream keep from launch to launch.
pub(super) const KEPT_BYTES: usize = SLOT_BYTES + ARRIVAL_BYTES;

/// What the kernels of one stream keep from launch to launch: the record of an index out of range, and counters. The device owns it.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelMemory {
    /// The record's address, in pinned host memory.
    pub(super) record: usize,
    /// The slot's address, in device memory.
    pub(super) slot: usize,
}

impl KernelMemory {
    /// The address of the counters, which follow the slot.
    pub(super) fn arrivals(self) -> usize {
        self.slot + SLOT_BYTES
    }
}

/// HIP's handle of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawEvent(pub(super) hipEvent_t);

// SAFETY: HIP's functions take an event's handle from any thread; the pointer is never followed here.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}
