//! Copies between host and device, through host memory that the device can reach by itself.
//!
//! A copy that goes on while the program does must not point into memory that the program may free. So the caller's bytes
//! are copied to or from pinned memory that the device owns, and a piece of it is used again only when the event behind
//! its last copy has been reached.

use crate::sync::Mutex;
use std::collections::VecDeque;
use std::ffi::c_void;

use hip_sys::hip::{hipMemcpyDeviceToHost, hipMemcpyHostToDevice};

use super::device::Device;
use super::error::{Error, Result};
use super::event::{Event, RawEvent, Recorded};
use super::result::{Hip, HipError};
use super::stream::Stream;

/// Pieces are of one of two sizes: most copies are small, and large ones are cut.
const SMALL: usize = 64 << 10;
const LARGE: usize = 4 << 20;
/// So many pieces of a size are kept; a copy that finds none of them free waits for the oldest.
const KEPT: usize = 8;

/// Pinned host memory. Whoever holds the value owns the memory.
#[derive(Debug)]
struct Piece {
    address: usize,
    bytes: usize,
    /// Reached when the last copy from or to the piece is done.
    after: Option<Recorded>,
}

/// The pieces of a device that no copy holds, oldest first.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<VecDeque<Piece>>,
    /// Pieces with a copy of which nobody knows the end. They are given back with the device.
    lost: Mutex<Vec<Piece>>,
}

impl Pool {
    /// A piece of at least this size, no more than [`LARGE`], that no copy uses.
    fn take(&self, device: &Device, bytes: usize) -> Result<Piece> {
        let size = if bytes <= SMALL { SMALL } else { LARGE };
        match self.take_idle(device, size)? {
            Some(piece) => Ok(piece),
            None => {
                let address = device.enter(|hip| hip.host_malloc(size))? as usize;
                Ok(Piece { address, bytes: size, after: None })
            }
        }
    }

    /// A kept piece whose copy is done, or the oldest of many, whose copy is waited for.
    fn take_idle(&self, device: &Device, size: usize) -> Result<Option<Piece>> {
        let mut idle = self.idle.lock();
        let places: Vec<usize> = (0..idle.len()).filter(|&at| idle[at].bytes == size).collect();
        for &at in &places {
            let Some(copied) = &idle[at].after else { return Ok(idle.remove(at)) };
            if copied.is_reached(device.hip())? {
                return Ok(idle.remove(at).map(|piece| piece.done(device)));
            }
        }
        if places.len() < KEPT {
            return Ok(None);
        }
        let Some(piece) = idle.remove(places[0]) else { return Ok(None) };
        drop(idle);
        if let Some(Err(error)) = piece.after.as_ref().map(|copied| copied.synchronize(device.hip())) {
            self.lost.lock().push(piece);
            return Err(error.into());
        }
        Ok(Some(piece.done(device)))
    }

    /// Takes a piece back behind the copy that the stream was given last.
    fn put(&self, stream: &Stream, mut piece: Piece) -> Result<()> {
        let device = stream.device();
        let recorded = device.take_event().and_then(|event| {
            let recorded = stream.lease("record").and_then(|stream| {
                // SAFETY: the event is live and was made on the stream's device; the stream is leased.
                Ok(unsafe { device.hip().event_record(event.0, stream.handle) }?)
            });
            match recorded {
                Ok(()) => Ok(event),
                Err(error) => {
                    device.put_event(event);
                    Err(error)
                }
            }
        });
        let error = match recorded {
            Ok(event) => {
                piece.after = Some(Recorded { event, loan: stream.loan().clone() });
                self.idle.lock().push_back(piece);
                return Ok(());
            }
            Err(Error::LoanEnded { .. }) => {
                // The stream's work was waited for.
                stream.loan().wait_for_end();
                self.idle.lock().push_back(piece);
                return Ok(());
            }
            Err(error) => error,
        };
        // Without an event the end of the copy has to be waited for.
        match stream.wait_idle() {
            Ok(()) => self.idle.lock().push_back(piece),
            Err(_) => self.lost.lock().push(piece),
        }
        Err(error)
    }

    /// Gives kept pieces back to HIP. The device must be idle.
    pub(super) fn trim(&self, hip: &Hip, put_event: impl Fn(RawEvent)) -> std::result::Result<(), HipError> {
        let mut first_error = Ok(());
        let (idle, lost) = (std::mem::take(&mut *self.idle.lock()), std::mem::take(&mut *self.lost.lock()));
        for mut piece in idle.into_iter().chain(lost) {
            if let Some(copied) = piece.after.take() {
                put_event(copied.event);
            }
            // SAFETY: the piece is of `host_malloc`, and its copies are done since the device is idle.
            if let Err(error) = unsafe { hip.host_free(piece.pointer()) } {
                first_error = first_error.and(Err(error));
                self.lost.lock().push(piece);
            }
        }
        first_error
    }
}

impl Piece {
    fn pointer(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    fn done(mut self, device: &Device) -> Piece {
        if let Some(copied) = self.after.take() {
            device.put_event(copied.event);
        }
        self
    }
}

/// Enqueues setting device memory to a value.
///
/// # Safety
///
/// The memory holds this many bytes and stays valid until the stream has come past the call.
pub(super) unsafe fn fill(stream: &Stream, to: usize, value: u8, bytes: usize) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let leased = stream.lease("fill")?;
    // SAFETY: the caller's promise; the stream is leased.
    stream.device().enter(|hip| unsafe { hip.memset_async(to as *mut c_void, value, bytes, leased.handle) })
}

/// Enqueues a copy of host bytes, which are free again when this returns.
///
/// # Safety
///
/// The device memory holds as many bytes and stays valid until the stream has come past the copy.
pub(super) unsafe fn write(stream: &Stream, to: usize, bytes: &[u8]) -> Result<()> {
    let device = stream.device();
    for (at, chunk) in bytes.chunks(LARGE).enumerate() {
        let piece = device.staging().take(device, chunk.len())?;
        // SAFETY: the piece is at least as large as the chunk and nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), piece.address as *mut u8, chunk.len()) };
        let to = (to + at * LARGE) as *mut c_void;
        let copied = stream.lease("write").and_then(|stream| {
            // SAFETY: the piece is kept until the copy is done, and the stream is leased; the device memory is the caller's
            // promise.
            device.enter(|hip| unsafe {
                hip.memcpy_async(to, piece.pointer(), chunk.len(), hipMemcpyHostToDevice, stream.handle)
            })
        });
        device.staging().put(stream, piece).and(copied)?;
    }
    Ok(())
}

/// Copies device memory to the host and waits for it.
///
/// # Safety
///
/// The device memory holds as many bytes.
pub(super) unsafe fn read(stream: &Stream, from: usize, into: &mut [u8]) -> Result<()> {
    // The next piece is on its way while one is copied out.
    let mut coming: Option<(Download, &mut [u8])> = None;
    for (at, chunk) in into.chunks_mut(LARGE).enumerate() {
        // SAFETY: the caller's promise.
        let next = unsafe { Download::start(stream, from + at * LARGE, chunk.len()) }?;
        if let Some((download, chunk)) = coming.replace((next, chunk)) {
            download.finish_into(chunk)?;
        }
    }
    coming.map_or(Ok(()), |(download, chunk)| download.finish_into(chunk))
}

/// Bytes on their way from a device to the host. They lie in memory of the device's own until they are asked for, so the
/// value can be dropped or forgotten at any time.
#[derive(Debug)]
pub struct Download {
    stream: Stream,
    /// With the number of bytes in each.
    pieces: Vec<(Piece, usize)>,
    /// Behind the copies, once all are enqueued.
    ready: Option<Event>,
    /// The event was reached: no copy uses the pieces any more.
    done: bool,
}

impl Download {
    /// Enqueues the copy.
    ///
    /// # Safety
    ///
    /// The device memory holds as many bytes and stays valid until the stream has come past the copy.
    pub(super) unsafe fn start(stream: &Stream, from: usize, bytes: usize) -> Result<Download> {
        let device = stream.device();
        let mut download = Download { stream: stream.clone(), pieces: Vec::new(), ready: None, done: false };
        let mut at = 0;
        while at < bytes {
            let part = (bytes - at).min(LARGE);
            let piece = device.staging().take(device, part)?;
            let (to, from) = (piece.pointer(), (from + at) as *const c_void);
            download.pieces.push((piece, part));
            let leased = stream.lease("read")?;
            // SAFETY: the piece is kept until the copy is done, and the stream is leased; the device memory is the caller's
            // promise.
            device.enter(|hip| unsafe {
                hip.memcpy_async(to, from, part, hipMemcpyDeviceToHost, leased.handle)
            })?;
            drop(leased);
            at += part;
        }
        download.ready = Some(stream.record()?);
        Ok(download)
    }

    /// Waits for the bytes.
    ///
    /// # Errors
    ///
    /// HIP's, among them those of work that the stream ran before.
    pub fn finish(self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.pieces.iter().map(|(_, part)| part).sum()];
        self.finish_into(&mut bytes)?;
        Ok(bytes)
    }

    /// Waits for the bytes and copies them; `into` is as long as what was asked for.
    fn finish_into(mut self, into: &mut [u8]) -> Result<()> {
        if let Some(ready) = &self.ready {
            ready.synchronize()?;
        }
        self.done = true;
        let mut rest = into;
        for (piece, part) in &self.pieces {
            let (chunk, after) = rest.split_at_mut((*part).min(rest.len()));
            // SAFETY: the piece holds `part` bytes that the copy wrote, and no copy writes them any more.
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
        for (piece, _) in self.pieces.drain(..) {
            if self.done {
                self.stream.device().staging().idle.lock().push_back(piece);
            } else if let Err(error) = self.stream.device().staging().put(&self.stream, piece) {
                self.stream.device().defer(error);
            }
        }
    }
}
