//! Marks: recording them, and waiting for them.
//!
//! A mark is recorded once something has to wait for work behind which there is none yet. That may be later than the work,
//! and then the wait is for what the stream was given in between as well. The alternative, an event behind every write,
//! would cost every launch of every program more than all of this crate does.

use std::sync::Arc;

use super::Device;
use crate::hip::error::{Error, Result};
use crate::hip::track::{Mark, Track};

impl Device {
    /// Leaves a mark behind all work of the stream so far. Give it back when it is not needed any more.
    pub(in crate::hip) fn mark(&self, track: &Track) -> Result<Mark> {
        let event = self.take_event()?;
        // Held until the mark is kept: the end of the loan takes all marks away.
        let lease = track.loan.lease().ok_or(Error::LoanEnded { call: "record" });
        let recorded = lease.and_then(|lease| {
            let number = track.begin_mark();
            // SAFETY: the event is live and was made on the stream's device; the stream is leased.
            unsafe { self.hip().event_record(event.0, track.raw.handle) }?;
            let mark = Mark { number, event: Arc::new(event) };
            self.give_back(track.keep_mark(mark.clone()));
            drop(lease);
            Ok(mark)
        });
        if recorded.is_err() {
            self.put_event(event);
        }
        recorded
    }

    /// Takes marks back. The last one to have a mark gives its event back to the device.
    pub(in crate::hip) fn give_back(&self, marks: impl IntoIterator<Item = Mark>) {
        marks
            .into_iter()
            .filter_map(|mark| Arc::into_inner(mark.event))
            .for_each(|event| self.put_event(event));
    }

    /// A mark of at least this number, recorded if there is none. `None` if the stream's loan is over, and so its work.
    fn mark_from(&self, track: &Track, number: u64) -> Result<Option<Mark>> {
        match track.mark_from(number).map_or_else(|| self.mark(track), Ok) {
            Ok(mark) => Ok(Some(mark)),
            Err(Error::LoanEnded { .. }) => {
                track.loan.wait_for_end();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the stream is known to have reached a mark of this number or an earlier one. HIP is asked about this crate's
    /// own streams only: it would follow the event to the stream, which another owner may have destroyed or may be
    /// capturing.
    pub(in crate::hip) fn is_reached(&self, track: &Track, number: u64) -> Result<bool> {
        if track.is_reached(number) {
            return Ok(true);
        }
        let own = !track.loan.is_borrowed();
        let Some(mark) = own.then(|| track.mark_from(number)).flatten() else { return Ok(false) };
        // SAFETY: the mark keeps the event, and this crate's streams live as long as their device.
        let reached = unsafe { self.hip().event_query(mark.event.0) };
        if reached == Ok(true) {
            self.give_back(track.reach(mark.number));
        }
        self.give_back([mark]);
        Ok(reached?)
    }

    /// Waits until the stream has come past all work before a mark of this number. No lease of it may be held.
    pub(in crate::hip) fn wait_for(&self, track: &Track, number: u64) -> Result<()> {
        if track.is_reached(number) {
            return Ok(());
        }
        let Some(mark) = self.mark_from(track, number)? else { return Ok(()) };
        let waited = self.wait_for_mark(track, &mark);
        self.give_back([mark]);
        waited
    }

    /// Waits for a mark of the stream. No lease of it may be held.
    pub(in crate::hip) fn wait_for_mark(&self, track: &Track, mark: &Mark) -> Result<()> {
        let Some(_lease) = track.loan.lease_or_wait() else { return Ok(()) };
        // SAFETY: the mark keeps the event, and its stream lives.
        unsafe { self.hip().event_synchronize(mark.event.0) }?;
        self.give_back(track.reach(mark.number));
        Ok(())
    }

    /// Makes further work of a stream come after the work of another before a mark of this number. Costs nothing if it does
    /// already. No lease of either may be held.
    pub(in crate::hip) fn order_after(&self, track: &Track, other: &Track, number: u64) -> Result<()> {
        if track.comes_after(other, number) {
            return Ok(());
        }
        let Some(mark) = self.mark_from(other, number)? else { return Ok(()) };
        let ordered = self.wait_on_stream(track, other, &mark);
        self.give_back([mark]);
        ordered
    }

    fn wait_on_stream(&self, track: &Track, other: &Track, mark: &Mark) -> Result<()> {
        let Some(_source) = other.loan.lease_or_wait() else { return Ok(()) };
        let _target = track.loan.lease().ok_or(Error::LoanEnded { call: "wait" })?;
        // SAFETY: the mark keeps the event, and the streams are leased.
        unsafe { self.hip().stream_wait_event(track.raw.handle, mark.event.0) }?;
        track.note_wait(other, mark.number);
        Ok(())
    }
}
