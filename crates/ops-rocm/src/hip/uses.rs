//! What streams have done with a block of device memory, and which later work must wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::device::Device;
use super::error::{Error, Result};
use super::stream::Stream;
use super::track::Track;
use crate::sync::Mutex;

/// The last uses of a block of device memory. A use is identified by the number of the first mark of its
/// stream after it.
#[derive(Debug)]
pub(super) struct Uses {
    /// The last read and the last write on the home stream; 0 if there was none, or if uses that wait for it
    /// replace it.
    read: AtomicU64,
    written: AtomicU64,
    /// The last uses on other streams that some later use may still have to wait for.
    elsewhere: Mutex<Vec<Use>>,
    /// The kinds of use that may exist elsewhere, as bits of [`Purpose`]. A caller that must wait for a use
    /// has synchronised with it, and so sees its bit.
    kinds_elsewhere: AtomicU8,
}

/// The last uses on one stream other than the home stream.
#[derive(Debug)]
struct Use {
    /// Keeps the stream alive, unless it is borrowed.
    device: Device,
    track: Arc<Track>,
    /// As in [`Uses`].
    read: u64,
    written: u64,
}

/// What an [`access`](super::DeviceMemory::access) is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reading, which other reads may overlap.
    Read,
    /// Writing, which waits for all earlier reads and writes; later ones wait for it.
    Write,
}

impl Purpose {
    const READ: u8 = 1;
    const WRITTEN: u8 = 2;

    /// The kinds of earlier use that it must wait for, as bits.
    #[inline]
    fn conflicts(self) -> u8 {
        if self == Purpose::Read { Purpose::WRITTEN } else { Purpose::READ | Purpose::WRITTEN }
    }

    /// The mark that it must wait for, given those after a read and a write.
    fn comes_after(self, read: u64, written: u64) -> u64 {
        if self == Purpose::Read { written } else { read.max(written) }
    }
}

impl Uses {
    /// Memory whose last work is before this mark of its home stream.
    pub(super) fn after(number: u64) -> Uses {
        Uses {
            read: AtomicU64::new(0),
            written: AtomicU64::new(number),
            elsewhere: Mutex::default(),
            kinds_elsewhere: AtomicU8::new(0),
        }
    }

    /// Whether such a use may have to wait for a use on a stream other than the home stream.
    #[inline]
    pub(super) fn conflict_with(&self, purpose: Purpose) -> bool {
        self.kinds_elsewhere.load(Ordering::Acquire) & purpose.conflicts() != 0
    }

    /// Makes later work on `stream` wait for conflicting uses elsewhere.
    #[cold]
    pub(super) fn order(&self, home: &Stream, stream: &Stream, purpose: Purpose) -> Result<()> {
        let mut elsewhere = self.elsewhere.lock();
        if stream != home {
            let number = purpose.comes_after(self.last_read(), self.last_written());
            home.device().order_after(stream.track(), home.track(), number)?;
        }
        for used in elsewhere.iter().filter(|used| !used.is_on(stream)) {
            used.device.order_after(
                stream.track(),
                &used.track,
                purpose.comes_after(used.read, used.written),
            )?;
        }
        elsewhere.retain(|used| !used.track.is_reached(used.last()));
        self.note_kinds(&elsewhere);
        Ok(())
    }

    /// Notes a use that is before the mark of this number on the stream; 0 if it is over.
    #[inline]
    pub(super) fn note(&self, home: &Stream, stream: &Stream, purpose: Purpose, number: u64) {
        if stream != home {
            return self.note_elsewhere(stream, purpose, number);
        }
        let last = if purpose == Purpose::Read { &self.read } else { &self.written };
        if last.load(Ordering::Relaxed) < number {
            last.fetch_max(number, Ordering::AcqRel);
        }
    }

    #[cold]
    fn note_elsewhere(&self, stream: &Stream, purpose: Purpose, number: u64) {
        let mut elsewhere = self.elsewhere.lock();
        let at = elsewhere.iter().position(|used| used.is_on(stream)).unwrap_or_else(|| {
            let (device, track) = (stream.device().clone(), stream.track().clone());
            elsewhere.push(Use { device, track, read: 0, written: 0 });
            elsewhere.len() - 1
        });
        let used = &mut elsewhere[at];
        let last = if purpose == Purpose::Read { &mut used.read } else { &mut used.written };
        *last = (*last).max(number);
        self.note_kinds(&elsewhere);
    }

    /// Drops the uses that a write on the stream waits for: anything that waits for the write waits for them
    /// too. Uses that it does not wait for belong to another part of the memory. Call this after the write,
    /// once it has been noted with a mark that is still to be recorded: only such a mark comes after
    /// everything that the stream has waited for.
    #[inline]
    pub(super) fn supersede(&self, home: &Stream, stream: &Stream) {
        if stream != home || self.kinds_elsewhere.load(Ordering::Acquire) != 0 {
            self.supersede_elsewhere(home, stream);
        }
    }

    #[cold]
    fn supersede_elsewhere(&self, home: &Stream, stream: &Stream) {
        let mut elsewhere = self.elsewhere.lock();
        let after = |track: &Track, number| stream.track().comes_after(track, number);
        elsewhere.retain(|used| used.is_on(stream) || !after(&used.track, used.last()));
        if stream != home {
            for last in [&self.read, &self.written] {
                let number = last.load(Ordering::Acquire);
                if after(home.track(), number) {
                    // A use noted in between stays.
                    let _ = last.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Relaxed);
                }
            }
        }
        self.note_kinds(&elsewhere);
    }

    fn note_kinds(&self, elsewhere: &[Use]) {
        let kinds = elsewhere.iter().fold(0, |kinds, used| {
            let read = if used.read > 0 { Purpose::READ } else { 0 };
            let written = if used.written > 0 { Purpose::WRITTEN } else { 0 };
            kinds | read | written
        });
        self.kinds_elsewhere.store(kinds, Ordering::Release);
    }

    fn last_read(&self) -> u64 {
        self.read.load(Ordering::Acquire)
    }

    fn last_written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Makes later work on the home stream wait for all uses on other streams; returns the number of a mark
    /// after all uses.
    pub(super) fn join(&self, home: &Stream) -> Result<u64> {
        let elsewhere = std::mem::take(&mut *self.elsewhere.lock());
        for used in &elsewhere {
            // If the stream cannot wait, the host does.
            let wait = || used.device.wait_for(&used.track, used.last());
            match used.device.order_after(home.track(), &used.track, used.last()) {
                Ok(()) => {}
                Err(Error::LoanEnded { .. }) => wait()?,
                Err(error) => return wait().and(Err(error)),
            }
        }
        let joined = if elsewhere.is_empty() { 0 } else { home.track().next_mark() };
        Ok(joined.max(self.last_read()).max(self.last_written()))
    }
}

impl Use {
    fn is_on(&self, stream: &Stream) -> bool {
        std::ptr::eq(&*self.track, &**stream.track())
    }

    /// The number of a mark after both.
    fn last(&self) -> u64 {
        self.read.max(self.written)
    }
}
