//! Marks: recording them, and waiting for them.
//!
//! A mark is recorded when something first has to wait for work that has no mark after it. That may be later
//! than the work, so the wait also covers the work enqueued in between. The alternative, an event after every
//! write, would cost each launch more than everything else in this crate.

use std::sync::Arc;

use super::Device;
use crate::hip::error::{Error, Result};
use crate::hip::track::{Mark, Track};

impl Device {
    /// Records a mark after all work of the stream so far. Return it when it is no longer needed.
    pub(in crate::hip) fn mark(&self, track: &Track) -> Result<Mark> {
        let event = self.take_event()?;
        // Held until the mark is stored: the end of the loan removes all marks.
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

    /// Takes marks back. The last owner of a mark returns its event to the device.
    pub(in crate::hip) fn give_back(&self, marks: impl IntoIterator<Item = Mark>) {
        marks
            .into_iter()
            .filter_map(|mark| Arc::into_inner(mark.event))
            .for_each(|event| self.put_event(event));
    }

    /// A mark of at least this number; records one if there is none. `None` if the stream's loan has ended,
    /// and its work with it.
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

    /// Whether the stream is known to have reached a mark of this number or an earlier one. Queries HIP only
    /// for this crate's own streams: HIP would follow the event to the stream, which another owner may have
    /// destroyed or may be capturing.
    pub(in crate::hip) fn is_reached(&self, track: &Track, number: u64) -> Result<bool> {
        if track.is_reached(number) {
            return Ok(true);
        }
        let own = !track.loan.is_borrowed();
        let Some(mark) = own.then(|| track.mark_from(number)).flatten() else { return Ok(false) };
        // SAFETY: the mark keeps the event alive, and this crate's streams live as long as their device.
        let reached = unsafe { self.hip().event_query(mark.event.0) };
        if reached == Ok(true) {
            self.give_back(track.reach(mark.number));
        }
        self.give_back([mark]);
        Ok(reached?)
    }

    /// Waits until the stream has passed all work before a mark of this number. The caller must not hold a
    /// lease of it.
    pub(in crate::hip) fn wait_for(&self, track: &Track, number: u64) -> Result<()> {
        if track.is_reached(number) {
            return Ok(());
        }
        let Some(mark) = self.mark_from(track, number)? else { return Ok(()) };
        let waited = self.wait_for_mark(track, &mark);
        self.give_back([mark]);
        waited
    }

    /// Waits for a mark of the stream. The caller must not hold a lease of it.
    pub(in crate::hip) fn wait_for_mark(&self, track: &Track, mark: &Mark) -> Result<()> {
        let Some(_lease) = track.loan.lease_or_wait() else { return Ok(()) };
        // SAFETY: the mark keeps the event alive, and its stream is live.
        unsafe { self.hip().event_synchronize(mark.event.0) }?;
        self.give_back(track.reach(mark.number));
        Ok(())
    }

    /// Makes later work of a stream wait for the work of another before a mark of this number. Costs nothing
    /// if it already does. The caller must not hold a lease of either.
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
        // SAFETY: the mark keeps the event alive, and the streams are leased.
        unsafe { self.hip().stream_wait_event(track.raw.handle, mark.event.0) }?;
        track.note_wait(other, mark.number);
        Ok(())
    }
}
