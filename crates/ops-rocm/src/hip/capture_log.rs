//! Work that a thread records instead of enqueuing it on a stream.
//!
//! While a thread records, HIP captures nothing: launches, fills and copies are noted, while memory is
//! allocated and kernels are loaded as usual. HIP's capture comes afterwards and takes only the noted work
//! (`graph`). So no forbidden call happens during a capture, and other threads and the stream itself are
//! unaffected.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hip_sys::hip::hipFunction_t;

use super::allocation::Allocation;
use super::error::{Error, Result};
use super::stream::Stream;
use super::uses::Purpose;

/// Recorded work. The recording keeps alive what its addresses and handles refer to.
pub(super) enum Work {
    Launch { function: hipFunction_t, grid: [u32; 3], block: [u32; 3], dynamic_lds: u32, args: Box<[u8]> },
    Fill { to: usize, value: u8, bytes: usize },
    Copy { to: usize, from: usize, bytes: usize },
}

/// Memory that recorded work uses, by its address in this process.
pub(super) type UsedMemory = HashMap<usize, (Arc<Allocation>, Purpose)>;

/// What a thread has recorded so far.
#[derive(Default)]
pub(super) struct CaptureLog {
    pub(super) work: Vec<Work>,
    pub(super) memory: UsedMemory,
    /// Modules of the kernels, and what else these need.
    pub(super) kept: Vec<Arc<dyn Any + Send + Sync>>,
    /// Memory allocated while recording, by its address in this process.
    made: HashSet<usize>,
    /// The part of it that was dropped while recording. Work recorded later may reuse it, because it runs
    /// later.
    idle: Vec<Arc<Allocation>>,
    /// The first call that could not be recorded.
    refused: Option<Error>,
}

impl CaptureLog {
    fn keep(&mut self, kept: Arc<dyn Any + Send + Sync>) {
        if !self.kept.iter().any(|known| Arc::ptr_eq(known, &kept)) {
            self.kept.push(kept);
        }
    }
}

const NOTHING: u64 = u64::MAX;

thread_local! {
    /// The number of the stream whose work this thread records.
    static STREAM: Cell<u64> = const { Cell::new(NOTHING) };
    static LOG: RefCell<CaptureLog> = RefCell::default();
}

/// While it lives, this thread records the work of a stream. Recording ends even if a call panics.
pub(crate) struct Recorder {
    stream: Stream,
}

impl Recorder {
    /// What was recorded.
    ///
    /// # Errors
    ///
    /// The error of the first call that could not be recorded.
    pub(super) fn finish(self) -> Result<(Stream, CaptureLog)> {
        let mut recording = LOG.take();
        recording.idle.clear();
        match recording.refused.take() {
            Some(refused) => Err(refused),
            None => Ok((self.stream.clone(), recording)),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        STREAM.set(NOTHING);
        drop(LOG.take());
    }
}

fn refused(call: &'static str, why: &'static str) -> Error {
    let error = Error::NotRecorded { call, why };
    LOG.with_borrow_mut(|recording| {
        recording.refused.get_or_insert_with(|| error.clone());
    });
    error
}

impl Stream {
    /// Whether this thread records the stream's work instead of enqueuing it.
    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        STREAM.get() == self.id()
    }

    /// Refuses a call while the stream's work is recorded; this makes the whole recording fail.
    ///
    /// # Errors
    ///
    /// [`Error::NotRecorded`].
    #[inline]
    pub(crate) fn require_unrecorded(&self, call: &'static str, why: &'static str) -> Result<()> {
        if self.is_recorded() { Err(refused(call, why)) } else { Ok(()) }
    }

    /// Keeps a value alive as long as what this thread records of the stream can be replayed.
    pub(crate) fn keep_in_recording(&self, kept: Arc<dyn Any + Send + Sync>) {
        if self.is_recorded() {
            LOG.with_borrow_mut(|recording| recording.keep(kept));
        }
    }

    /// Begins to record the work that this thread enqueues on the stream.
    ///
    /// # Errors
    ///
    /// [`Error::NotRecorded`] if the thread is recording already.
    pub(crate) fn record_work(&self) -> Result<Recorder> {
        if STREAM.get() != NOTHING {
            return Err(refused("capture", "this thread is recording already; end that first"));
        }
        drop(self.lease("capture")?);
        STREAM.set(self.id());
        Ok(Recorder { stream: self.clone() })
    }
}

/// Notes work. `kept` keeps its handles alive.
pub(super) fn note(work: Work, kept: Option<Arc<dyn Any + Send + Sync>>) {
    LOG.with_borrow_mut(|recording| {
        recording.work.push(work);
        if let Some(kept) = kept {
            recording.keep(kept);
        }
    });
}

/// Notes a use of memory by the work noted next.
///
/// # Errors
///
/// [`Error::NotRecorded`] for memory of other code, which may be gone at a replay.
pub(super) fn note_use(memory: &Arc<Allocation>, purpose: Purpose) -> Result<()> {
    if memory.borrowed {
        return Err(refused(
            "a use of borrowed memory",
            "other code owns the memory and may free it while the graph lives; copy it to a tensor of this backend",
        ));
    }
    LOG.with_borrow_mut(|recording| {
        let used = recording.memory.entry(Arc::as_ptr(memory).addr());
        let (_, noted) = used.or_insert_with(|| (memory.clone(), purpose));
        if purpose == Purpose::Write {
            *noted = purpose;
        }
    });
    Ok(())
}

/// Memory of at least this size that was dropped while recording, unless it would waste more than a quarter.
pub(super) fn reuse(bytes: usize) -> Option<Arc<Allocation>> {
    let fits =
        |memory: &Allocation| (bytes..=bytes.saturating_add(bytes / 4 + 512)).contains(&memory.capacity());
    LOG.with_borrow_mut(|recording| {
        let fitting = recording.idle.iter().enumerate().filter(|(_, memory)| fits(memory));
        let (at, _) = fitting.min_by_key(|(_, memory)| memory.capacity())?;
        Some(recording.idle.swap_remove(at))
    })
}

/// Notes memory that was allocated while recording.
pub(super) fn note_made(memory: &Arc<Allocation>) {
    LOG.with_borrow_mut(|recording| recording.made.insert(Arc::as_ptr(memory).addr()));
}

/// Keeps memory for work recorded later, as its buffer is dropped. Memory that others use too is not kept,
/// nor is memory that no recorded work uses.
pub(super) fn put(memory: &Arc<Allocation>) {
    /// Owners: the buffer and the recording.
    const OWNERS: usize = 2;
    LOG.with_borrow_mut(|recording| {
        let key = Arc::as_ptr(memory).addr();
        let own = recording.made.contains(&key) && recording.memory.contains_key(&key);
        if own && Arc::strong_count(memory) == OWNERS {
            recording.idle.push(memory.clone());
        }
    });
}
