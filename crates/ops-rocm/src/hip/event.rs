//! Points in a stream's work.

use std::sync::Arc;

use super::device::Device;
use super::error::{Error, Result};
use super::raw::RawEvent;
use super::track::Track;

/// A point in a stream's work, which other streams and the host can wait for. Returned by
/// [`Stream::record`](super::Stream::record).
///
/// Once the loan of a borrowed stream has ended, its events are reached. Until then they are asked for only by the
/// functions here: HIP follows an event to its stream, so call none of them while the stream's owner captures it.
#[derive(Debug)]
pub struct Event {
    device: Device,
    event: RawEvent,
    /// The stream's.
    track: Arc<Track>,
    /// As a mark's.
    number: u64,
    timed: bool,
}

impl Event {
    /// An event that is to be recorded on a stream at once.
    pub(super) fn new(device: &Device, track: &Arc<Track>, timed: bool) -> Result<Event> {
        let event = if timed { device.new_event(true)? } else { device.take_event()? };
        let (device, track) = (device.clone(), track.clone());
        let number = track.begin_mark();
        Ok(Event { device, event, track, number, timed })
    }

    pub(super) fn raw(&self) -> RawEvent {
        self.event
    }

    pub(super) fn track(&self) -> &Track {
        &self.track
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Waits until the stream has come to this point.
    ///
    /// # Errors
    ///
    /// HIP's, among them those of work that the stream ran before.
    pub fn synchronize(&self) -> Result<()> {
        let Some(_lease) = self.track.loan.lease_or_wait() else { return Ok(()) };
        // SAFETY: the event belongs to this value, and its stream lives.
        unsafe { self.device.hip().event_synchronize(self.event.0) }?;
        self.note_reached();
        Ok(())
    }

    /// Whether the stream has come to this point.
    ///
    /// # Errors
    ///
    /// As for [`synchronize`](Self::synchronize).
    pub fn is_reached(&self) -> Result<bool> {
        let Some(_lease) = self.track.loan.lease_or_wait() else { return Ok(true) };
        // SAFETY: as above.
        let reached = unsafe { self.device.hip().event_query(self.event.0) }?;
        if reached {
            self.note_reached();
        }
        Ok(reached)
    }

    fn note_reached(&self) {
        self.device.give_back(self.track.reach(self.number));
    }

    /// Milliseconds since an earlier event. Both must have been made by
    /// [`Stream::record_timed`](super::Stream::record_timed); waits for this one.
    ///
    /// # Errors
    ///
    /// HIP's, among them those of events without a time stamp; [`Error::LoanEnded`] for events on a borrowed stream.
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        self.synchronize()?;
        let ended = || Error::LoanEnded { call: "milliseconds_since" };
        let _from = start.track.loan.lease().ok_or_else(ended)?;
        let _to = self.track.loan.lease().ok_or_else(ended)?;
        // SAFETY: both live as long as the borrows, and were recorded on streams that live when they were made.
        Ok(unsafe { self.device.hip().event_elapsed_time(start.event.0, self.event.0) }?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.timed {
            self.device.destroy_event(self.event);
        } else {
            self.device.put_event(self.event);
        }
    }
}
