//! Points in a stream's work.

use super::device::Device;
use super::error::{Error, Result};
use super::loan::Loan;
use super::raw::Recorded;

/// A point in a stream's work, which other streams and the host can wait for. Returned by
/// [`Stream::record`](super::Stream::record).
#[derive(Debug)]
pub struct Event {
    device: Device,
    recorded: Recorded,
    timed: bool,
}

impl Event {
    /// An event that is to be recorded on a stream with this loan.
    pub(super) fn new(device: &Device, loan: &Loan, timed: bool) -> Result<Event> {
        let event = if timed { device.new_event(true)? } else { device.take_event()? };
        let recorded = Recorded { event, loan: loan.clone() };
        Ok(Event { device: device.clone(), recorded, timed })
    }

    pub(super) fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// Waits until the stream has come to this point.
    ///
    /// # Errors
    ///
    /// HIP's, among them those of work that the stream ran before.
    pub fn synchronize(&self) -> Result<()> {
        Ok(self.recorded.synchronize(self.device.hip())?)
    }

    /// Whether the stream has come to this point.
    ///
    /// # Errors
    ///
    /// As for [`synchronize`](Self::synchronize).
    pub fn is_reached(&self) -> Result<bool> {
        Ok(self.recorded.is_reached(self.device.hip())?)
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
        let _from = start.recorded.loan.lease().ok_or_else(ended)?;
        let _to = self.recorded.loan.lease().ok_or_else(ended)?;
        // SAFETY: both live as long as the borrows, and were recorded on streams that live when they were made.
        Ok(unsafe { self.device.hip().event_elapsed_time(start.recorded.event.0, self.recorded.event.0) }?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.timed {
            self.device.destroy_event(self.recorded.event);
        } else {
            self.device.put_event(self.recorded.event);
        }
    }
}
