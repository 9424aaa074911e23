//! A HIP stream, and how far it is known to have progressed.
//!
//! A mark is an event recorded after the work that a stream had been given so far. The marks of a stream are
//! numbered. Work is identified by the number that the next mark will have: the mark with that number, and
//! each later one, comes after the work. So work needs no event of its own: an event is recorded once
//! something has to wait for the work, unless there already is one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::borrowed_handle::Loan;
use super::raw::{KernelMemory, RawEvent, RawStream};
use crate::sync::Mutex;

/// Maximum number of marks kept per stream. Waiting for an older one means waiting for the oldest of these.
const KEPT_MARKS: usize = 16;
/// Maximum number of streams whose marks a stream remembers to have waited for. Forgetting one costs another
/// wait.
const KEPT_WAITS: usize = 16;

/// A HIP stream. The device keeps it when its owner drops it, and gives it to the next owner.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) raw: RawStream,
    /// A borrowed stream belongs to other code: this crate neither destroys nor reuses it.
    pub(super) loan: Loan,
    /// What the stream's kernels keep, once one needs it. A former owner's kernels may still write to it.
    pub(super) kernel_memory: Mutex<Option<KernelMemory>>,
    /// The number of the last mark that was begun.
    begun: AtomicU64,
    /// Marks up to this number are known to be reached.
    reached: AtomicU64,
    /// Marks not known to be reached, oldest first.
    marks: Mutex<VecDeque<Mark>>,
    /// Other streams, each with the last of its marks that later work of this stream waits for.
    waited: Mutex<VecDeque<(u64, u64)>>,
}

/// A mark. The owner of the last clone of the event returns it to the device.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) number: u64,
    pub(super) event: Arc<RawEvent>,
}

impl Track {
    pub(super) fn new(raw: RawStream, loan: Loan) -> Track {
        Track {
            raw,
            loan,
            kernel_memory: Mutex::default(),
            begun: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            marks: Mutex::default(),
            waited: Mutex::default(),
        }
    }

    /// The number of the first mark that is certain to come after all work so far.
    #[inline]
    pub(super) fn next_mark(&self) -> u64 {
        self.begun.load(Ordering::Acquire) + 1
    }

    /// The number of a mark that is about to be recorded. Work that another thread enqueues at the same time
    /// may come after the mark; its own number is then greater, since the mark's number is taken before it is
    /// recorded.
    pub(super) fn begin_mark(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Keeps a mark that was recorded; returns one to be given back instead.
    pub(super) fn keep_mark(&self, mark: Mark) -> Option<Mark> {
        let mut marks = self.marks.lock();
        // Threads may record marks in a different order than they begin them.
        let at = marks.iter().position(|other| other.number > mark.number).unwrap_or(marks.len());
        marks.insert(at, mark);
        if marks.len() > KEPT_MARKS { marks.pop_front() } else { None }
    }

    /// The first mark of at least this number.
    pub(super) fn mark_from(&self, number: u64) -> Option<Mark> {
        self.marks.lock().iter().find(|mark| mark.number >= number).cloned()
    }

    pub(super) fn is_reached(&self, number: u64) -> bool {
        self.reached.load(Ordering::Acquire) >= number
    }

    /// Notes that the stream has reached a mark; returns those to be given back.
    pub(super) fn reach(&self, number: u64) -> Vec<Mark> {
        self.reached.fetch_max(number, Ordering::AcqRel);
        let mut marks = self.marks.lock();
        let over = marks.iter().take_while(|mark| mark.number <= number).count();
        marks.drain(..over).collect()
    }

    /// Notes that all work of the stream is over and no more will come; returns the marks to be given back.
    pub(super) fn close(&self) -> Vec<Mark> {
        self.reach(u64::MAX)
    }

    /// Whether later work of this stream comes after this mark of another.
    pub(super) fn comes_after(&self, other: &Track, number: u64) -> bool {
        let waited = |&(id, up_to): &(u64, u64)| id == other.raw.id && up_to >= number;
        other.is_reached(number) || self.waited.lock().iter().any(waited)
    }

    /// Notes that later work of this stream comes after a mark of another.
    pub(super) fn note_wait(&self, other: &Track, number: u64) {
        let mut waited = self.waited.lock();
        let known = waited.iter().position(|(id, _)| *id == other.raw.id).and_then(|at| waited.remove(at));
        let up_to = known.map_or(number, |(_, up_to)| up_to.max(number));
        if waited.len() == KEPT_WAITS {
            waited.pop_front();
        }
        waited.push_back((other.raw.id, up_to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track() -> Track {
        Track::new(RawStream::new(std::ptr::null_mut()), Loan::default())
    }

    fn mark(track: &Track) -> Option<Mark> {
        let number = track.begin_mark();
        track.keep_mark(Mark { number, event: Arc::new(RawEvent(std::ptr::null_mut())) })
    }

    fn numbers(marks: &[Mark]) -> Vec<u64> {
        marks.iter().map(|mark| mark.number).collect()
    }

    #[test]
    fn work_is_covered_by_the_marks_after_it() {
        let track = track();
        assert_eq!(track.next_mark(), 1);
        assert!(track.mark_from(1).is_none(), "nothing is recorded yet");
        mark(&track);
        let work = track.next_mark();
        assert_eq!((track.mark_from(1).unwrap().number, work), (1, 2));
        assert!(track.mark_from(work).is_none(), "the mark is before the work");
        mark(&track);
        mark(&track);
        assert_eq!(track.mark_from(work).unwrap().number, 2);
        assert_eq!(numbers(&track.reach(2)), [1, 2]);
        assert!(track.is_reached(work) && !track.is_reached(3));
        assert_eq!(track.mark_from(work).unwrap().number, 3);
        assert_eq!(numbers(&track.close()), [3]);
        assert!(track.is_reached(track.next_mark()));
    }

    #[test]
    fn marks_are_in_order_and_few() {
        let track = track();
        let (first, second) = (track.begin_mark(), track.begin_mark());
        for number in [second, first] {
            track.keep_mark(Mark { number, event: Arc::new(RawEvent(std::ptr::null_mut())) });
        }
        assert_eq!(track.mark_from(1).unwrap().number, first);
        let given_back: Vec<_> = (0..KEPT_MARKS).filter_map(|_| mark(&track)).collect();
        assert_eq!(numbers(&given_back), [first, second]);
        assert_eq!(track.mark_from(1).unwrap().number, 3, "a later mark also works");
    }

    #[test]
    fn a_wait_is_remembered_until_others_take_its_place() {
        let (reader, writer) = (track(), track());
        assert!(!reader.comes_after(&writer, 1));
        reader.note_wait(&writer, 5);
        reader.note_wait(&writer, 3);
        assert!(reader.comes_after(&writer, 5) && !reader.comes_after(&writer, 6));
        let others: Vec<_> = (0..KEPT_WAITS).map(|_| track()).collect();
        others.iter().for_each(|other| reader.note_wait(other, 1));
        assert!(!reader.comes_after(&writer, 1) && reader.comes_after(&others[0], 1));
    }
}
