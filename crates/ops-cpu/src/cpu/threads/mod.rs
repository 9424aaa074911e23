//! Splits work over the threads of a rayon pool.
//!
//! The pool is the one that the caller runs in, or else the global one, whose size `RAYON_NUM_THREADS`
//! or `rayon::ThreadPoolBuilder` sets. The caller works too: on a busy machine it may finish before a
//! helper wakes, and then waits for none.
use super::vectors::TaskResult;
use core::ops::Range;
use std::sync::Mutex;

mod crew;

/// A call that touches at most this many elements stays on the caller's thread: waking another thread takes a few
/// microseconds.
pub(super) const MAX_SERIAL_ELEMENTS: usize = 1 << 15;

/// Threads that a call may use, including the caller's.
pub(super) fn count() -> usize {
    rayon::current_num_threads()
}

/// Tasks for a large call: several per thread, so that one slow thread does not delay the whole call.
pub(super) fn tasks() -> usize {
    count() * 4
}

/// Calls `f` on ranges that cover `0..items`, in parallel if the work is large enough; `cost` is the work of an item, in
/// elements. Returns the first fault; later ranges may not have been visited.
///
/// `f` is a trait object so that this code is compiled once, not for every kernel and type.
pub(super) fn split(
    items: usize,
    cost: usize,
    f: &(dyn Fn(Range<usize>) -> TaskResult + Sync),
) -> TaskResult {
    let work = items.saturating_mul(cost.max(1));
    if items == 0 {
        return Ok(());
    }
    if items == 1 || work <= MAX_SERIAL_ELEMENTS || count() <= 1 {
        return f(0..items);
    }
    let tasks = tasks().min(items).min(work.div_ceil(MAX_SERIAL_ELEMENTS / 4));
    let step = items.div_ceil(tasks);
    let first = FirstError::default();
    crew::run(items.div_ceil(step), count(), &|t| first.record(f(t * step..items.min((t + 1) * step))));
    first.into_result()
}

/// The first error that any thread reports.
struct FirstError<E>(Mutex<Option<E>>);

impl<E> Default for FirstError<E> {
    fn default() -> Self {
        FirstError(Mutex::new(None))
    }
}

impl<E> FirstError<E> {
    fn record(&self, done: Result<(), E>) {
        if let Err(e) = done {
            self.0.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(e);
        }
    }
    fn into_result(self) -> Result<(), E> {
        self.0.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
    }
}

/// Calls `f` with each of `parts`, on threads, and returns the first error.
pub(super) fn for_each_part<P: Send, E: Send>(
    parts: Vec<P>,
    f: &(dyn Fn(P) -> Result<(), E> + Sync),
) -> Result<(), E> {
    if parts.len() <= 1 || count() <= 1 {
        return parts.into_iter().try_for_each(f);
    }
    let first = FirstError::default();
    let slots: Vec<Mutex<Option<P>>> = parts.into_iter().map(|p| Mutex::new(Some(p))).collect();
    crew::run(slots.len(), count(), &|t| {
        let part = slots[t].lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(part) = part {
            first.record(f(part));
        }
    });
    first.into_result()
}

#[cfg(test)]
mod tests {
    use super::super::vectors::Fault;
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_item_is_visited_once() {
        for (items, cost) in [(0, 1), (1, 1 << 20), (7, 1 << 20), (1000, 100), (100_000, 1), (3, usize::MAX)]
        {
            let seen: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
            split(items, cost, &|range: Range<usize>| {
                range.for_each(|i| {
                    seen[i].fetch_add(1, Ordering::Relaxed);
                });
                Ok(())
            })
            .unwrap();
            assert!(seen.iter().all(|n| n.load(Ordering::Relaxed) == 1), "{items} × {cost}");
        }
    }

    #[test]
    fn a_fault_on_any_thread_is_returned() {
        for (items, cost) in [(1, 1), (7, 1 << 20), (1000, 100)] {
            let done = split(items, cost, &|range| {
                if range.contains(&(items - 1)) { Err(Fault::from("the last")) } else { Ok(()) }
            });
            assert!(done.is_err(), "{items} × {cost}");
        }
    }

    #[test]
    fn every_part_is_processed_once_and_an_error_is_returned() {
        let mut data = vec![0u32; 100];
        let parts: Vec<_> = data.chunks_mut(7).enumerate().collect();
        let done = for_each_part(parts, &|(i, part): (usize, &mut [u32])| {
            part.iter_mut().for_each(|v| *v += 1);
            if i == 3 { Err("refused") } else { Ok(()) }
        });
        assert_eq!((done, data), (Err("refused"), vec![1; 100]));
    }
}
