//! Points in a stream's work.

use std::sync::Arc;

use super::device::Device;
use super::error::{Error, Result};
use super::raw::RawEvent;
use super::track::Track;

/// A point in a stream's work that other streams and the host can wait for. Returned by
/// [`Stream::record`](super::Stream::record).
///
/// Once the loan of a borrowed stream has ended, its events count as reached. Until then, only the functions
/// here query them: HIP follows an event to its stream, so do not call them while the stream's owner captures
/// it.
#[derive(Debug)]
pub struct Event {
    device: Device,
    event: RawEvent,
    /// The track of its stream.
    track: Arc<Track>,
    /// Its number among the stream's marks.
    number: u64,
    timed: bool,
}

impl Event {
    /// An event, which the caller records on a stream immediately.
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

    /// Waits until the stream has reached this point.
    ///
    /// # Errors
    ///
    /// Errors from HIP, including those of earlier work on the stream.
    pub fn synchronize(&self) -> Result<()> {
        let Some(_lease) = self.track.loan.lease_or_wait() else { return Ok(()) };
        // SAFETY: the event belongs to this value, and its stream lives.
        unsafe { self.device.hip().event_synchronize(self.event.0) }?;
        self.note_reached();
        Ok(())
    }

    /// Whether the stream has reached this point.
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
    /// [`Stream::record_timed`](super::Stream::record_timed). Waits for this event.
    ///
    /// # Errors
    ///
    /// Errors from HIP, such as for events without a time stamp; [`Error::LoanEnded`] for events on a
    /// borrowed stream.
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        self.synchronize()?;
        let ended = || Error::LoanEnded { call: "milliseconds_since" };
        let _from = start.track.loan.lease().ok_or_else(ended)?;
        let _to = self.track.loan.lease().ok_or_else(ended)?;
        // SAFETY: both are live for the duration of the borrows, and were recorded on streams that were live
        // at that time.
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
