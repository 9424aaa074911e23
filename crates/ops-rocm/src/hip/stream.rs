//! Queues of work.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hip_sys::hip::hipStream_t;

use super::device::Device;
use super::error::Result;
use super::event::Event;

/// HIP's handle of a stream, with a number that no other stream of the process has or had.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawStream {
    pub(super) handle: hipStream_t,
    pub(super) id: u64,
}

// SAFETY: HIP's functions take a stream's handle from any thread; the pointer is never followed here.
unsafe impl Send for RawStream {}
// SAFETY: as above.
unsafe impl Sync for RawStream {}

/// A queue of work on a device, run in order. A copy refers to the same stream; with the last copy the stream goes back
/// to the device, which gives it out again.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: Device,
    raw: RawStream,
    /// Not this crate's to destroy or to give out again.
    borrowed: bool,
    /// A kernel that checks indices was launched since the last look at the device's record.
    index_checked: AtomicBool,
}

impl Stream {
    pub(super) fn new(device: &Device, raw: RawStream) -> Stream {
        Stream::of(device, raw, false)
    }

    fn of(device: &Device, raw: RawStream, borrowed: bool) -> Stream {
        let index_checked = AtomicBool::new(false);
        Stream { inner: Arc::new(Inner { device: device.clone(), raw, borrowed, index_checked }) }
    }

    /// A stream that other code made and keeps.
    ///
    /// # Safety
    ///
    /// The handle is a live stream of this device, and stays one until the last copy of the result is gone.
    pub unsafe fn borrow_raw(device: &Device, handle: hipStream_t) -> Stream {
        let raw = RawStream { handle, id: super::device::next_stream_id() };
        Stream::of(device, raw, true)
    }

    /// The stream's device.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// HIP's handle, valid as long as this value or a copy of it.
    pub fn raw(&self) -> hipStream_t {
        self.inner.raw.handle
    }

    /// A number that no other stream of the process has.
    pub(super) fn id(&self) -> u64 {
        self.inner.raw.id
    }

    pub(super) fn index_checked(&self) -> &AtomicBool {
        &self.inner.index_checked
    }

    /// Waits for all work so far.
    ///
    /// # Errors
    ///
    /// An error that an earlier `Drop` left, or HIP's, among them those of the work itself.
    pub fn synchronize(&self) -> Result<()> {
        self.device().check()?;
        self.wait_idle()
    }

    /// Waits without asking for what a `Drop` left.
    pub(super) fn wait_idle(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        Ok(unsafe { self.device().hip().stream_synchronize(self.raw()) }?)
    }

    /// Whether all work so far is done.
    ///
    /// # Errors
    ///
    /// HIP's, among them those of the work itself.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: the stream lives as long as `self`.
        Ok(unsafe { self.device().hip().stream_query(self.raw()) }?)
    }

    /// An event behind all work so far.
    ///
    /// # Errors
    ///
    /// HIP's.
    pub fn record(&self) -> Result<Event> {
        self.record_as(false)
    }

    /// The same with a time stamp, for [`Event::milliseconds_since`].
    ///
    /// # Errors
    ///
    /// HIP's.
    pub fn record_timed(&self) -> Result<Event> {
        self.record_as(true)
    }

    fn record_as(&self, timed: bool) -> Result<Event> {
        let event = Event::new(self.device(), timed)?;
        // SAFETY: both live, and the event was made on the stream's device.
        unsafe { self.device().hip().event_record(event.raw().0, self.raw()) }?;
        Ok(event)
    }

    /// Lets further work wait until another stream has come to an event.
    ///
    /// # Errors
    ///
    /// HIP's.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: both live.
        Ok(unsafe { self.device().hip().stream_wait_event(self.raw(), event.raw().0) }?)
    }

    /// A stream on the same device whose work comes after all work so far on this one.
    ///
    /// # Errors
    ///
    /// HIP's.
    pub fn fork(&self) -> Result<Stream> {
        let fork = self.device().stream()?;
        fork.wait(&self.record()?)?;
        Ok(fork)
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Stream {}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.borrowed {
            self.device.forget_stream(self.raw);
        } else {
            self.device.put_stream(self.raw);
        }
    }
}
