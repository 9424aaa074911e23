//! Splitting work over the threads of the pool.
//!
//! The pool is rayon's: the one that the caller runs in, else the global one, whose size
//! `RAYON_NUM_THREADS` and `rayon::ThreadPoolBuilder` set. The caller works too: on a busy machine it
//! may well be done before a helper wakes, and then waits for none.
use super::vectors::Done;
use core::ops::Range;
use std::sync::Mutex;

mod crew;

/// Work, in elements touched, below which a call stays on the caller's thread: waking another one
/// costs some microseconds.
pub(super) const SMALL: usize = 1 << 15;

/// Threads that a call may use, the caller's among them.
pub(super) fn count() -> usize {
    rayon::current_num_threads()
}

/// Tasks that a large call is cut into: a few a thread, so that one that is slowed down does not hold up all.
pub(super) fn tasks() -> usize {
    count() * 4
}

/// Calls `f` on ranges that cover `0..items`, in parallel where it pays; an item costs about `cost` elements. Returns the
/// first fault; the ranges after it may not have been visited.
///
/// `f` is a trait object so that the pool's code is compiled once, not for every kernel and type.
pub(super) fn split(items: usize, cost: usize, f: &(dyn Fn(Range<usize>) -> Done + Sync)) -> Done {
    let work = items.saturating_mul(cost.max(1));
    if items == 0 {
        return Ok(());
    }
    if items == 1 || work <= SMALL || count() <= 1 {
        return f(0..items);
    }
    let tasks = tasks().min(items).min(work.div_ceil(SMALL / 4));
    let step = items.div_ceil(tasks);
    let first = First::default();
    crew::run(items.div_ceil(step), count(), &|t| first.keep(f(t * step..items.min((t + 1) * step))));
    first.into_result()
}

/// The first error of several threads.
struct First<E>(Mutex<Option<E>>);

impl<E> Default for First<E> {
    fn default() -> Self {
        First(Mutex::new(None))
    }
}

impl<E> First<E> {
    fn keep(&self, done: Result<(), E>) {
        if let Err(e) = done {
            self.0.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(e);
        }
    }
    fn into_result(self) -> Result<(), E> {
        self.0.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
    }
}

/// Calls `f` with each of `parts`, on threads; returns the first error.
pub(super) fn each_part<P: Send, E: Send>(
    parts: Vec<P>,
    f: &(dyn Fn(P) -> Result<(), E> + Sync),
) -> Result<(), E> {
    if parts.len() <= 1 || count() <= 1 {
        return parts.into_iter().try_for_each(f);
    }
    let first = First::default();
    let slots: Vec<Mutex<Option<P>>> = parts.into_iter().map(|p| Mutex::new(Some(p))).collect();
    crew::run(slots.len(), count(), &|t| {
        let part = slots[t].lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(part) = part {
            first.keep(f(part));
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
    fn every_part_is_taken_once_and_a_refusal_is_told() {
        let mut data = vec![0u32; 100];
        let parts: Vec<_> = data.chunks_mut(7).enumerate().collect();
        let done = each_part(parts, &|(i, part): (usize, &mut [u32])| {
            part.iter_mut().for_each(|v| *v += 1);
            if i == 3 { Err("refused") } else { Ok(()) }
        });
        assert_eq!((done, data), (Err("refused"), vec![1; 100]));
    }
}
