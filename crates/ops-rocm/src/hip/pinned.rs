//! Pinned host memory that a device owns, in pieces that are reused when their last copy is done.

use crate::sync::Mutex;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;

use super::error::Result;
use super::result::{Hip, HipError};
use super::track::Track;

/// Pieces have one of two sizes: most copies are small, and large ones are split.
const SMALL: usize = 64 << 10;
/// Size of the largest piece.
pub(super) const LARGE: usize = 4 << 20;
/// Number of pieces kept per size. A copy that finds none of them free waits for the oldest.
const KEPT: usize = 8;

/// Pinned host memory. The holder of the value owns the memory.
#[derive(Debug)]
pub(super) struct PinnedPiece {
    pub(super) address: usize,
    bytes: usize,
    /// The last copy from or to the piece, unless it is known to be done.
    pub(super) copy: Option<PendingCopy>,
}

/// An enqueued copy: it is done when the stream has reached a mark of this number.
#[derive(Debug)]
pub(super) struct PendingCopy {
    pub(super) track: Arc<Track>,
    pub(super) number: u64,
}

impl PinnedPiece {
    /// Wraps memory of [`piece_size`] bytes that HIP has just allocated.
    pub(super) fn new(address: *mut c_void, bytes: usize) -> PinnedPiece {
        PinnedPiece { address: address as usize, bytes, copy: None }
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    fn done(self) -> PinnedPiece {
        PinnedPiece { copy: None, ..self }
    }
}

/// The size of the piece that holds this many bytes, at most [`LARGE`].
pub(super) fn piece_size(bytes: usize) -> usize {
    if bytes <= SMALL { SMALL } else { LARGE }
}

/// The pieces of a device that no copy holds, oldest first.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<VecDeque<PinnedPiece>>,
    /// Pieces with a copy that may never finish. They are freed with the device.
    lost: Mutex<Vec<PinnedPiece>>,
}

impl Pool {
    /// A kept piece of this size whose copy is done, or the oldest of [`KEPT`] after `wait` has waited for
    /// its copy. Prefers a copy on one of this crate's own streams, since another owner's may be captured.
    pub(super) fn take(
        &self,
        size: usize,
        is_done: impl Fn(&PendingCopy) -> Result<bool>,
        wait: impl Fn(&PendingCopy) -> Result<()>,
    ) -> Result<Option<PinnedPiece>> {
        let mut idle = self.idle.lock();
        let places: Vec<usize> = (0..idle.len()).filter(|&at| idle[at].bytes == size).collect();
        for &at in &places {
            let done = idle[at].copy.as_ref().map_or(Ok(true), &is_done)?;
            if done {
                return Ok(idle.remove(at).map(PinnedPiece::done));
            }
        }
        if places.len() < KEPT {
            return Ok(None);
        }
        let borrowed = |at: usize| idle[at].copy.as_ref().is_some_and(|copy| copy.track.loan.is_borrowed());
        let oldest = places.iter().copied().min_by_key(|&at| (borrowed(at), at));
        let Some(piece) = oldest.and_then(|at| idle.remove(at)) else { return Ok(None) };
        drop(idle);
        if let Some(Err(error)) = piece.copy.as_ref().map(wait) {
            self.lose(piece);
            return Err(error);
        }
        Ok(Some(piece.done()))
    }

    /// Takes back a piece, together with its last copy unless that is done.
    pub(super) fn keep(&self, piece: PinnedPiece) {
        self.idle.lock().push_back(piece);
    }

    /// Takes back a piece with a copy of which it is unknown when it ends.
    pub(super) fn lose(&self, piece: PinnedPiece) {
        self.lost.lock().push(piece);
    }

    /// Frees the kept pieces. The device must be idle.
    pub(super) fn trim(&self, hip: &Hip) -> std::result::Result<(), HipError> {
        let mut first_error = Ok(());
        let (idle, lost) = (std::mem::take(&mut *self.idle.lock()), std::mem::take(&mut *self.lost.lock()));
        for piece in idle.into_iter().chain(lost) {
            let piece = piece.done();
            // SAFETY: the piece comes from `host_malloc`, and its copies are done since the device is idle.
            if let Err(error) = unsafe { hip.host_free(piece.pointer()) } {
                first_error = first_error.and(Err(error));
                self.lose(piece);
            }
        }
        first_error
    }
}
