//! A block of device memory with its uses. It is shared by the buffer that owns it and the graphs that use
//! it; the last of them returns it.

use super::allocator::Block;
use super::device::Device;
use super::stream::Stream;
use super::uses::{Purpose, Uses};

#[derive(Debug)]
pub(super) struct Allocation {
    /// `None` for no bytes, and after it was returned.
    block: Option<Block>,
    /// Other code owns it: this crate neither frees nor reuses it.
    pub(super) borrowed: bool,
    pub(super) home: Stream,
    pub(super) uses: Uses,
}

impl Allocation {
    pub(super) fn new(home: &Stream, block: Option<Block>, borrowed: bool, uses: Uses) -> Allocation {
        Allocation { block, borrowed, home: home.clone(), uses }
    }

    pub(super) fn device(&self) -> &Device {
        self.home.device()
    }

    /// The address on the device; 0 for no bytes.
    #[inline]
    pub(super) fn address(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.address)
    }

    /// Size in bytes, which may be more than was requested.
    pub(super) fn capacity(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.bytes)
    }

    /// Makes later work on `stream` wait for conflicting uses elsewhere.
    #[inline]
    pub(super) fn order(&self, stream: &Stream, purpose: Purpose) -> super::Result<()> {
        if *stream != self.home || self.uses.conflict_with(purpose) {
            self.uses.order(&self.home, stream, purpose)?;
        }
        Ok(())
    }

    /// Notes a use by the work most recently enqueued on `stream`.
    #[inline]
    pub(super) fn note(&self, stream: &Stream, purpose: Purpose) {
        self.uses.note(&self.home, stream, purpose, stream.track().next_mark());
        if purpose == Purpose::Write {
            self.uses.supersede(&self.home, stream);
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Some(mut block) = self.block.take() else { return };
        let joined = self.uses.join(&self.home);
        if self.borrowed {
            return joined.err().into_iter().for_each(|error| self.device().defer(error));
        }
        match joined {
            Ok(after) => {
                block.after = after;
                self.device().release(self.home.id(), block);
            }
            Err(error) => {
                self.device().quarantine(block);
                self.device().defer(error);
            }
        }
    }
}
