//! Copies between host and device, through pinned host memory.
//!
//! An asynchronous copy must not point to memory that the program may free. So the caller's bytes go through
//! pinned memory that the device owns. A piece of it is reused only when its last copy is known to be done.

use std::ffi::c_void;

use hip_sys::hip::{hipMemcpyDeviceToHost, hipMemcpyHostToDevice};

use super::error::{Error, Result};
use super::pinned::{LARGE, PendingCopy, PinnedPiece};
use super::stream::Stream;
use super::track::Mark;

/// Takes a piece back after the copy most recently enqueued on the stream; returns the number of a mark after
/// that copy.
fn put(stream: &Stream, mut piece: PinnedPiece) -> Result<u64> {
    let (device, pool) = (stream.device(), stream.device().pinned());
    match device.mark(stream.track()) {
        Ok(mark) => {
            let number = mark.number;
            device.give_back([mark]);
            piece.copy = Some(PendingCopy { track: stream.track().clone(), number });
            pool.keep(piece);
            Ok(number)
        }
        Err(Error::LoanEnded { .. }) => {
            // The end of the loan waits for the stream's work.
            stream.loan().wait_for_end();
            pool.keep(piece);
            Ok(0)
        }
        Err(error) => {
            // Without a mark, the only way to know that the copy is done is to wait.
            match stream.wait_idle() {
                Ok(()) => pool.keep(piece),
                Err(_) => pool.lose(piece),
            }
            Err(error)
        }
    }
}

/// Enqueues setting device memory to a value.
///
/// # Safety
///
/// The memory has this many bytes and stays valid until the stream has passed the call.
pub(super) unsafe fn fill(stream: &Stream, to: usize, value: u8, bytes: usize) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let leased = stream.lease("fill")?;
    // SAFETY: guaranteed by the caller; the stream is leased.
    stream.device().enter(|hip| unsafe { hip.memset_async(to as *mut c_void, value, bytes, leased.handle) })
}

/// Enqueues a copy of host bytes, which may be changed or freed when this returns. Returns the number of a
/// mark after the copy.
///
/// # Safety
///
/// The device memory has as many bytes and stays valid until the stream has passed the copy.
pub(super) unsafe fn write(stream: &Stream, to: usize, bytes: &[u8]) -> Result<u64> {
    let (device, mut number) = (stream.device(), 0);
    for (at, chunk) in bytes.chunks(LARGE).enumerate() {
        let piece = device.take_piece(chunk.len())?;
        // SAFETY: the piece is at least as large as the chunk, and only this copy uses it.
        unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), piece.address as *mut u8, chunk.len()) };
        let to = (to + at * LARGE) as *mut c_void;
        let copied = stream.lease("write").and_then(|stream| {
            // SAFETY: the piece is kept until the copy is done, and the stream is leased; the device memory
            // is guaranteed by the caller.
            device.enter(|hip| unsafe {
                hip.memcpy_async(to, piece.pointer(), chunk.len(), hipMemcpyHostToDevice, stream.handle)
            })
        });
        let kept = put(stream, piece);
        copied?;
        number = kept?;
    }
    Ok(number)
}

/// Copies device memory to the host and waits for it.
///
/// # Safety
///
/// The device memory has as many bytes.
pub(super) unsafe fn read(stream: &Stream, from: usize, into: &mut [u8]) -> Result<()> {
    // While one piece is copied out, the next one is being transferred.
    let mut coming: Option<(Download, &mut [u8])> = None;
    for (at, chunk) in into.chunks_mut(LARGE).enumerate() {
        // SAFETY: guaranteed by the caller.
        let next = unsafe { Download::start(stream, from + at * LARGE, chunk.len()) }?;
        if let Some((download, chunk)) = coming.replace((next, chunk)) {
            download.finish_into(chunk)?;
        }
    }
    coming.map_or(Ok(()), |(download, chunk)| download.finish_into(chunk))
}

/// A copy from the device to the host in progress. The bytes go to pinned memory that the device owns, so the value can be
/// dropped or forgotten at any time.
#[derive(Debug)]
pub struct Download {
    stream: Stream,
    /// Each with its number of bytes.
    pieces: Vec<(PinnedPiece, usize)>,
    /// A mark after the copies, once all are enqueued.
    ready: Option<Mark>,
    /// The mark was reached: the copies are done.
    done: bool,
}

impl Download {
    /// Enqueues the copy.
    ///
    /// # Safety
    ///
    /// The device memory has as many bytes and stays valid until the stream has passed the copy.
    pub(super) unsafe fn start(stream: &Stream, from: usize, bytes: usize) -> Result<Download> {
        let device = stream.device();
        let mut download = Download { stream: stream.clone(), pieces: Vec::new(), ready: None, done: false };
        let mut at = 0;
        while at < bytes {
            let part = (bytes - at).min(LARGE);
            let piece = device.take_piece(part)?;
            let (to, from) = (piece.pointer(), (from + at) as *const c_void);
            download.pieces.push((piece, part));
            let leased = stream.lease("read")?;
            // SAFETY: the piece is kept until the copy is done, and the stream is leased; the device memory
            // is guaranteed by the caller.
            device.enter(|hip| unsafe {
                hip.memcpy_async(to, from, part, hipMemcpyDeviceToHost, leased.handle)
            })?;
            drop(leased);
            at += part;
        }
        download.ready = Some(device.mark(stream.track())?);
        Ok(download)
    }

    /// The number of a mark after the copy.
    pub(super) fn number(&self) -> u64 {
        self.ready.as_ref().map_or(0, |mark| mark.number)
    }

    /// Waits for the bytes.
    ///
    /// # Errors
    ///
    /// Errors from HIP, including those of earlier work on the stream.
    pub fn finish(self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.pieces.iter().map(|(_, part)| part).sum()];
        self.finish_into(&mut bytes)?;
        Ok(bytes)
    }

    /// Waits for the bytes and copies them; `into` must have the requested length.
    fn finish_into(mut self, into: &mut [u8]) -> Result<()> {
        if let Some(ready) = &self.ready {
            self.stream.device().wait_for_mark(self.stream.track(), ready)?;
        }
        self.done = true;
        let mut rest = into;
        for (piece, part) in &self.pieces {
            let (chunk, after) = rest.split_at_mut((*part).min(rest.len()));
            // SAFETY: the piece holds `part` bytes written by the copy, and no copy writes them any more.
            unsafe {
                std::ptr::copy_nonoverlapping(piece.address as *const u8, chunk.as_mut_ptr(), chunk.len())
            };
            rest = after;
        }
        Ok(())
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.stream.device().give_back(self.ready.take());
        for (piece, _) in self.pieces.drain(..) {
            if self.done {
                self.stream.device().pinned().keep(piece);
            } else if let Err(error) = put(&self.stream, piece) {
                self.stream.device().defer(error);
            }
        }
    }
}
