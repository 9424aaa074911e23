//! Points in a stream's work.

use hip_sys::hip::hipEvent_t;

use super::device::Device;
use super::error::Result;

/// HIP's handle of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawEvent(pub(super) hipEvent_t);

// SAFETY: HIP's functions take an event's handle from any thread; the pointer is never followed here.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}

/// A point in a stream's work, which other streams and the host can wait for. Made by
/// [`Stream::record`](super::Stream::record).
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: RawEvent,
    timed: bool,
}

impl Event {
    pub(super) fn new(device: &Device, timed: bool) -> Result<Event> {
        let raw = if timed { device.new_event(true)? } else { device.take_event()? };
        Ok(Event { device: device.clone(), raw, timed })
    }

    pub(super) fn raw(&self) -> RawEvent {
        self.raw
    }

    /// Waits until the stream has come to this point.
    ///
    /// # Errors
    ///
    /// HIP's, among them those of work that the stream ran before.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event lives as long as `self`.
        Ok(unsafe { self.device.hip().event_synchronize(self.raw.0) }?)
    }

    /// Whether the stream has come to this point.
    ///
    /// # Errors
    ///
    /// As for [`synchronize`](Self::synchronize).
    pub fn is_reached(&self) -> Result<bool> {
        // SAFETY: the event lives as long as `self`.
        Ok(unsafe { self.device.hip().event_query(self.raw.0) }?)
    }

    /// Milliseconds since an earlier event. Both must have been made by
    /// [`Stream::record_timed`](super::Stream::record_timed); waits for this one.
    ///
    /// # Errors
    ///
    /// HIP's, among them those of events without a time stamp.
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        self.synchronize()?;
        // SAFETY: both live as long as the borrows, and were recorded when they were made.
        Ok(unsafe { self.device.hip().event_elapsed_time(start.raw.0, self.raw.0) }?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.timed {
            self.device.destroy_event(self.raw);
        } else {
            self.device.put_event(self.raw);
        }
    }
}
