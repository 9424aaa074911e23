//! Splitting work over the threads of the global pool.
use core::ops::Range;
use rayon::prelude::*;

/// Work, in elements touched, below which a call stays on the caller's thread: waking another one
/// costs some microseconds.
const SMALL: usize = 1 << 15;

/// Calls `f` on ranges that cover `0..items`, in parallel where it pays; an item costs about `cost` elements.
///
/// `f` is a trait object so that the pool's code is compiled once, not for every kernel and type.
pub(super) fn split(items: usize, cost: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    let threads = rayon::current_num_threads();
    let work = items.saturating_mul(cost.max(1));
    if items <= 1 || threads <= 1 || work <= SMALL {
        if items > 0 {
            f(0..items);
        }
        return;
    }
    // A few tasks a thread, so that one that is slowed down does not hold up all.
    let tasks = (threads * 4).min(items).min(work.div_ceil(SMALL / 4));
    let step = items.div_ceil(tasks);
    (0..items.div_ceil(step)).into_par_iter().for_each(|t| f(t * step..items.min((t + 1) * step)));
}

#[cfg(test)]
mod tests {
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
                })
            });
            assert!(seen.iter().all(|n| n.load(Ordering::Relaxed) == 1), "{items} × {cost}");
        }
    }
}
