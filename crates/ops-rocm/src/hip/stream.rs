//! Streams: queues of work.

use std::sync::{Arc, OnceLock};

use hip_sys::hip::hipStream_t;

use super::borrowed_handle::{Lease, Loan};
use super::device::Device;
use super::error::{Error, Result};
use super::event::Event;
use super::raw::{KernelMemory, RawStream};
use super::track::Track;

/// A queue of work on a device, run in order. Clones refer to the same stream; when the last one is dropped,
/// the device reuses the stream.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: Arc<Inner>,
}

/// Why the host cannot wait for recorded work.
const WAITS: &str = "recorded work has not run; wait after a replay";
/// Why events and forks cannot be recorded.
const EVENTS: &str = "a recording is of one queue; order queues before or after a replay";

#[derive(Debug)]
struct Inner {
    device: Device,
    track: Arc<Track>,
    /// What kernels keep from launch to launch, once it is ready for the stream's current owner.
    kernel_memory: OnceLock<KernelMemory>,
}

impl Device {
    /// Makes a stream that does not wait for other streams.
    ///
    /// # Errors
    ///
    /// An error left by an earlier `Drop`, or one from HIP.
    pub fn stream(&self) -> Result<Stream> {
        self.check()?;
        Ok(Stream::of(self, self.take_stream()?))
    }
}

impl Stream {
    fn of(device: &Device, track: Arc<Track>) -> Stream {
        Stream { inner: Arc::new(Inner { device: device.clone(), track, kernel_memory: OnceLock::new() }) }
    }

    /// Wraps a stream that other code made and owns.
    ///
    /// # Safety
    ///
    /// The handle is a live stream of this device, and remains one until the last clone of the result is
    /// dropped or [`end_loan`](Self::end_loan) has returned.
    pub unsafe fn borrow_raw(device: &Device, handle: hipStream_t) -> Stream {
        Stream::of(device, Arc::new(Track::new(RawStream::new(handle), Loan::borrowed())))
    }

    /// Ends the loan of a borrowed stream: waits for calls that use it and for its work, after which its
    /// owner may destroy it. Every later use of a clone is [`Error::LoanEnded`]. Does nothing to a stream
    /// that this crate owns.
    ///
    /// # Errors
    ///
    /// Errors from HIP, including those of the work itself. The loan has ended in any case.
    pub fn end_loan(&self) -> Result<()> {
        self.end_loan_after(|| ())
    }

    /// The same, after destroying the objects that use the stream. `destroy` may use the handle, but must not
    /// take a lease.
    pub(crate) fn end_loan_after(&self, destroy: impl FnOnce()) -> Result<()> {
        let mut waited = Ok(());
        self.loan().end(|| {
            destroy();
            waited = self.inner.device.forget_stream(&self.inner.track);
        });
        Ok(waited?)
    }

    /// The stream's device.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// HIP's handle, valid as long as this value or a clone of it lives, and until the loan of a borrowed
    /// stream ends.
    pub fn raw(&self) -> hipStream_t {
        self.inner.track.raw.handle
    }

    /// The handle, for one call to HIP or to a library. The stream lives as long as the result.
    pub(crate) fn lease(&self, call: &'static str) -> Result<LeasedStream<'_>> {
        let lease = self.loan().lease().ok_or(Error::LoanEnded { call })?;
        Ok(LeasedStream { handle: self.inner.track.raw.handle, _lease: lease })
    }

    pub(super) fn loan(&self) -> &Loan {
        &self.inner.track.loan
    }

    /// A number that no other stream of the process has.
    pub(super) fn id(&self) -> u64 {
        self.inner.track.raw.id
    }

    pub(super) fn track(&self) -> &Arc<Track> {
        &self.inner.track
    }

    pub(super) fn kernel_memory(&self) -> &OnceLock<KernelMemory> {
        &self.inner.kernel_memory
    }

    /// Waits for all work so far.
    ///
    /// # Errors
    ///
    /// An error left by an earlier `Drop`, or one from HIP, including those of the work itself.
    pub fn synchronize(&self) -> Result<()> {
        self.require_unrecorded("synchronize", WAITS)?;
        self.device().check()?;
        self.wait_idle()
    }

    /// Waits without returning the error that a `Drop` left.
    pub(super) fn wait_idle(&self) -> Result<()> {
        let stream = self.lease("synchronize")?;
        let number = self.track().begin_mark();
        // SAFETY: the stream is leased.
        unsafe { self.device().hip().stream_synchronize(stream.handle) }?;
        self.device().give_back(self.track().reach(number));
        Ok(())
    }

    /// Whether all work so far is done.
    ///
    /// # Errors
    ///
    /// Errors from HIP, including those of the work itself.
    pub fn is_idle(&self) -> Result<bool> {
        self.require_unrecorded("is_idle", WAITS)?;
        let stream = self.lease("is_idle")?;
        // SAFETY: the stream is leased.
        Ok(unsafe { self.device().hip().stream_query(stream.handle) }?)
    }

    /// Records an event after all work so far.
    ///
    /// # Errors
    ///
    /// Errors from HIP.
    pub fn record(&self) -> Result<Event> {
        self.record_as(false)
    }

    /// The same with a time stamp, for [`Event::milliseconds_since`].
    ///
    /// # Errors
    ///
    /// Errors from HIP.
    pub fn record_timed(&self) -> Result<Event> {
        self.record_as(true)
    }

    fn record_as(&self, timed: bool) -> Result<Event> {
        self.require_unrecorded("record", EVENTS)?;
        let event = Event::new(self.device(), self.track(), timed)?;
        let stream = self.lease("record")?;
        // SAFETY: the event is live and was made on the stream's device; the stream is leased.
        unsafe { self.device().hip().event_record(event.raw().0, stream.handle) }?;
        Ok(event)
    }

    /// Makes later work wait until another stream has reached an event.
    ///
    /// # Errors
    ///
    /// Errors from HIP.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.require_unrecorded("wait", EVENTS)?;
        // If there is no lease, the work before the event is done.
        let Some(_source) = event.track().loan.lease_or_wait() else { return Ok(()) };
        let stream = self.lease("wait")?;
        // SAFETY: the event is live, and the streams are leased.
        unsafe { self.device().hip().stream_wait_event(stream.handle, event.raw().0) }?;
        self.track().note_wait(event.track(), event.number());
        Ok(())
    }

    /// Makes a stream on the same device whose work waits for all work so far on this one.
    ///
    /// # Errors
    ///
    /// Errors from HIP.
    pub fn fork(&self) -> Result<Stream> {
        let fork = self.device().stream()?;
        fork.wait(&self.record()?)?;
        Ok(fork)
    }
}

/// A stream's handle that may be used while this value lives.
#[derive(Debug)]
pub(crate) struct LeasedStream<'s> {
    pub(crate) handle: hipStream_t,
    _lease: Lease<'s>,
}

impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Stream {}

impl Drop for Inner {
    fn drop(&mut self) {
        let Track { loan, kernel_memory, .. } = &*self.track;
        if !loan.is_borrowed() {
            return self.device.put_stream(self.track.clone());
        }
        let mut waited = Ok(());
        // This is the last clone; the lender keeps the stream alive up to here, unless the loan has ended
        // before.
        loan.end(|| waited = self.device.forget_stream(&self.track));
        match (waited, kernel_memory.lock().take()) {
            (Ok(()), Some(memory)) => self.device.put_kernel_memory(memory),
            (Ok(()), None) => {}
            // Kernels may still write to it.
            (Err(error), _) => self.device.defer(error),
        }
    }
}
