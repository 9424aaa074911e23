//! Pinned host memory that a device owns, in pieces that are used again when their last copy is done.

use crate::sync::Mutex;
use std::collections::VecDeque;
use std::ffi::c_void;

use super::raw::{RawEvent, Recorded};
use super::result::{Hip, HipError};

/// Pieces have one of two sizes: most copies are small, and large ones are cut.
const SMALL: usize = 64 << 10;
/// The most bytes that one piece holds.
pub(super) const LARGE: usize = 4 << 20;
/// Pieces of one size that are kept. A copy that finds none of them free waits for the oldest.
const KEPT: usize = 8;

/// Pinned host memory. The holder of the value owns the memory.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) address: usize,
    bytes: usize,
    /// Reached when the last copy from or to the piece is done.
    pub(super) after: Option<Recorded>,
}

impl Piece {
    /// Memory of [`piece_size`] bytes that HIP has just allocated.
    pub(super) fn new(address: *mut c_void, bytes: usize) -> Piece {
        Piece { address: address as usize, bytes, after: None }
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    fn done(mut self, put_event: impl Fn(RawEvent)) -> Piece {
        if let Some(copied) = self.after.take() {
            put_event(copied.event);
        }
        self
    }
}

/// The size of the piece that holds this many bytes, at most [`LARGE`].
pub(super) fn piece_size(bytes: usize) -> usize {
    if bytes <= SMALL { SMALL } else { LARGE }
}

/// The pieces of a device that no copy holds, oldest first.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<VecDeque<Piece>>,
    /// Pieces with a copy whose end is unknown. They are freed with the device.
    lost: Mutex<Vec<Piece>>,
}

impl Pool {
    /// A kept piece of this size whose copy is done, or the oldest of [`KEPT`] once its copy is done. `put_event` takes
    /// the event back.
    pub(super) fn take(
        &self,
        hip: &Hip,
        size: usize,
        put_event: impl Fn(RawEvent),
    ) -> Result<Option<Piece>, HipError> {
        let mut idle = self.idle.lock();
        let places: Vec<usize> = (0..idle.len()).filter(|&at| idle[at].bytes == size).collect();
        for &at in &places {
            let Some(copied) = &idle[at].after else { return Ok(idle.remove(at)) };
            if copied.is_reached(hip)? {
                return Ok(idle.remove(at).map(|piece| piece.done(put_event)));
            }
        }
        if places.len() < KEPT {
            return Ok(None);
        }
        let Some(piece) = idle.remove(places[0]) else { return Ok(None) };
        drop(idle);
        if let Some(Err(error)) = piece.after.as_ref().map(|copied| copied.synchronize(hip)) {
            self.lose(piece);
            return Err(error);
        }
        Ok(Some(piece.done(put_event)))
    }

    /// Takes back a piece whose last copy is done when its event is reached.
    pub(super) fn keep(&self, piece: Piece) {
        self.idle.lock().push_back(piece);
    }

    /// Takes back a piece with a copy whose end is unknown.
    pub(super) fn lose(&self, piece: Piece) {
        self.lost.lock().push(piece);
    }

    /// Frees the kept pieces. The device must be idle.
    pub(super) fn trim(&self, hip: &Hip, put_event: impl Fn(RawEvent)) -> Result<(), HipError> {
        let mut first_error = Ok(());
        let (idle, lost) = (std::mem::take(&mut *self.idle.lock()), std::mem::take(&mut *self.lost.lock()));
        for piece in idle.into_iter().chain(lost) {
            let piece = piece.done(&put_event);
            // SAFETY: the piece is of `host_malloc`, and its copies are done since the device is idle.
            if let Err(error) = unsafe { hip.host_free(piece.pointer()) } {
                first_error = first_error.and(Err(error));
                self.lose(piece);
            }
        }
        first_error
    }
}
