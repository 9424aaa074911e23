//! Resources that a device lends to the types of this layer, and keeps for reuse: events, streams, pinned
//! memory.

use std::sync::Arc;

use super::{Device, destroy_event};
use crate::hip::borrowed_handle::Loan;
use crate::hip::error::Result;
use crate::hip::pinned::{PendingCopy, PinnedPiece, Pool, piece_size};
use crate::hip::raw::{KernelMemory, RawEvent, RawStream};
use crate::hip::track::Track;

impl Device {
    pub(in crate::hip) fn pinned(&self) -> &Pool {
        &self.inner.pinned
    }

    /// A pinned buffer of at least this size that no copy uses.
    pub(in crate::hip) fn take_piece(&self, bytes: usize) -> Result<PinnedPiece> {
        let size = piece_size(bytes);
        let is_done = |copy: &PendingCopy| self.is_reached(&copy.track, copy.number);
        let wait = |copy: &PendingCopy| self.wait_for(&copy.track, copy.number);
        match self.pinned().take(size, is_done, wait)? {
            Some(piece) => Ok(piece),
            None => Ok(PinnedPiece::new(self.with_room(|hip| hip.host_malloc(size))?, size)),
        }
    }

    /// Memory for a stream's record of an index out of range, and whether it is new. New memory is zeroed.
    pub(in crate::hip) fn take_kernel_memory(&self) -> Result<(KernelMemory, bool)> {
        if let Some(memory) = self.inner.kernel_memory.lock().spare.pop() {
            return Ok((memory, false));
        }
        let memory = self.inner.new_kernel_memory()?;
        self.inner.kernel_memory.lock().all.push(memory);
        Ok((memory, true))
    }

    /// Takes back memory that no kernel writes any more.
    pub(in crate::hip) fn put_kernel_memory(&self, memory: KernelMemory) {
        self.inner.kernel_memory.lock().spare.push(memory);
    }

    pub(in crate::hip) fn take_event(&self) -> Result<RawEvent> {
        let pooled = self.inner.events.lock().pop();
        pooled.map_or_else(|| self.new_event(false), Ok)
    }

    pub(in crate::hip) fn new_event(&self, timed: bool) -> Result<RawEvent> {
        Ok(RawEvent(self.with_room(|hip| hip.event_create(timed))?))
    }

    pub(in crate::hip) fn put_event(&self, event: RawEvent) {
        self.inner.events.lock().push(event);
    }

    pub(in crate::hip) fn destroy_event(&self, event: RawEvent) {
        if let Err(error) = destroy_event(self.hip(), event.0) {
            self.defer(error);
        }
    }

    pub(in crate::hip) fn take_stream(&self) -> Result<Arc<Track>> {
        if let Some(pooled) = self.inner.streams.lock().pop() {
            return Ok(pooled);
        }
        let raw = RawStream::new(self.with_room(|hip| hip.stream_create())?);
        Ok(Arc::new(Track::new(raw, Loan::default())))
    }

    pub(in crate::hip) fn put_stream(&self, stream: Arc<Track>) {
        self.inner.streams.lock().push(stream);
    }
}
