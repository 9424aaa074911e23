//! Lets idle helpers wait briefly for the next job of a [`crew`](super::crew). A helper is a thread of a pool that works on a
//! caller's job.
//!
//! A step of a small model makes hundreds of calls of some 30 µs, and a thread of the pool that has to be woken comes too late for many of
//! them. So a helper does not go back to the pool at once: it watches its seat for [`WAIT`], and a caller puts the next job there.
use super::crew::Job;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a helper waits. Between two calls of a step, the caller prepares operands or runs a short op alone.
const WAIT: Duration = Duration::from_micros(100);

/// A helper that has been away from its pool for this long returns, even if jobs keep coming: other work of the pool must not starve.
const MAX_AWAY: Duration = Duration::from_millis(1);

const EMPTY: u8 = 0;
/// A helper waits.
const WAITING: u8 = 1;
/// A caller is putting a job here.
const CLAIMED: u8 = 2;
/// There is a job.
const FILLED: u8 = 3;

/// A seat for each thread of a pool.
#[derive(Debug)]
pub(super) struct Seats {
    seats: Box<[Seat]>,
    /// Number of waiting threads. At most one fewer than the pool has, because the caller works on the job, too.
    waiting: AtomicUsize,
    /// Helpers that the pool has not started yet. Without a limit, they would queue up while all threads of the pool wait here.
    called: AtomicUsize,
    /// Jobs for which no helper was called, because enough are on their way.
    left: Mutex<Vec<Arc<Job>>>,
}

/// In a cache line of its own, since its helper reads it all the time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Seat {
    state: AtomicU8,
    job: Mutex<Option<Arc<Job>>>,
}

impl Seats {
    pub(super) fn new(threads: usize) -> Self {
        let seats = (0..threads).map(|_| Seat::default()).collect();
        Seats { seats, waiting: AtomicUsize::new(0), called: AtomicUsize::new(0), left: Mutex::default() }
    }

    /// Gives the job to at most `helpers` threads that wait, and returns their number.
    pub(super) fn give(&self, job: &Arc<Job>, helpers: usize) -> usize {
        self.seats.iter().filter(|seat| seat.give(job)).take(helpers).count()
    }

    /// Returns whether the caller should ask the pool for a helper for this job; the helper calls [`arrive`](Self::arrive) when
    /// it starts. If as many helpers as the pool has threads have not started yet, returns false and leaves the job to the first
    /// of them that starts.
    pub(super) fn try_call(&self, job: &Arc<Job>) -> bool {
        if self.count_call() {
            return true;
        }
        let mut left = self.left();
        left.retain(|job| job.is_open());
        left.push(Arc::clone(job));
        drop(left);
        // All of them may have started before the job was pushed.
        self.count_call()
    }

    fn count_call(&self) -> bool {
        // A helper that arrives after this sees the jobs that were left before it.
        let may = self.called.fetch_add(1, Ordering::AcqRel) < self.seats.len();
        if !may {
            self.called.fetch_sub(1, Ordering::AcqRel);
        }
        may
    }

    /// A thread of the pool has started as a helper of this job. It takes part in that, and in jobs for which none was called.
    pub(super) fn arrive(&self, job: Arc<Job>) {
        self.called.fetch_sub(1, Ordering::AcqRel);
        let mut next = Some(job);
        while let Some(job) = next {
            job.help();
            next = self.left().pop();
        }
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Job>>> {
        self.left.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Called by thread `index` of the pool: helps with jobs until none arrives within [`WAIT`], or until [`MAX_AWAY`] has passed
    /// when a job ends.
    pub(super) fn wait(&self, index: usize) {
        let Some(seat) = self.seats.get(index) else { return };
        let since = Instant::now();
        while since.elapsed() < MAX_AWAY {
            let has_room = self.waiting.fetch_add(1, Ordering::Relaxed) + 1 < self.seats.len();
            let job = if has_room { seat.wait() } else { None };
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let Some(job) = job else { return };
            job.help();
        }
    }
}

impl Seat {
    fn give(&self, job: &Arc<Job>) -> bool {
        let claim = || self.state.compare_exchange(WAITING, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        // An exchange takes the cache line away from its helper even if it fails.
        let claimed = self.state.load(Ordering::Relaxed) == WAITING && claim().is_ok();
        if claimed {
            *self.slot() = Some(Arc::clone(job));
            self.state.store(FILLED, Ordering::Release);
        }
        claimed
    }

    fn wait(&self) -> Option<Arc<Job>> {
        /// Iterations between two looks at the clock.
        const SPINS: u32 = 16;
        let since = Instant::now();
        self.state.store(WAITING, Ordering::Release);
        let mut spins = 0;
        while self.state.load(Ordering::Acquire) != FILLED {
            spins += 1;
            let leave = || self.state.compare_exchange(WAITING, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
            // If a caller has claimed the seat, its job is there in a moment.
            if spins % SPINS == 0 && since.elapsed() > WAIT && leave().is_ok() {
                return None;
            }
            spin_loop();
        }
        self.state.store(EMPTY, Ordering::Relaxed);
        self.slot().take()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Job>>> {
        self.job.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{for_each_part, pool, with_pool};
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, Mutex};
    use std::time::{Duration, Instant};

    /// Runs two parts that wait for each other, and returns the threads that ran them.
    fn together() -> HashSet<std::thread::ThreadId> {
        let (both, ids) = (Barrier::new(2), Mutex::new(HashSet::new()));
        let part = |()| {
            ids.lock().unwrap().insert(std::thread::current().id());
            both.wait();
            Ok::<_, ()>(())
        };
        for_each_part(vec![(), ()], &part).unwrap();
        ids.into_inner().unwrap()
    }

    #[test]
    fn a_helper_takes_part_in_job_after_job() {
        let pool = pool(2).unwrap();
        with_pool(Some(&pool), || {
            for pause in [0, 20, 200, 2000] {
                for _ in 0..50 {
                    assert_eq!(together().len(), 2);
                    let until = Instant::now() + Duration::from_micros(pause);
                    while Instant::now() < until {
                        core::hint::spin_loop();
                    }
                }
            }
        });
    }

    /// Callers that do not wait for helpers, on a pool whose threads all wait for jobs, call no more helpers than there are threads.
    #[test]
    fn helpers_do_not_queue_up() {
        let own = super::super::Pool::of(rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap());
        let (threads, sum) = (own.0.as_ref().unwrap(), &AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    with_pool(Some(&own), || {
                        for _ in 0..2000 {
                            let part = |n: usize| {
                                sum.fetch_add(n, Ordering::Relaxed);
                                Ok::<_, ()>(())
                            };
                            for_each_part(vec![1; 4], &part).unwrap();
                            assert!(
                                threads.seats.called.load(Ordering::Relaxed) <= 4 + 3,
                                "and one for each caller that is refused"
                            );
                        }
                    })
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 3 * 2000 * 4);
    }

    /// While as many helpers as the pool has threads are on their way to jobs that have ended, none is called for another job. They help it.
    #[test]
    fn helpers_of_jobs_that_have_ended_take_part_in_another() {
        let own = super::super::Pool::of(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
        let threads = own.0.as_ref().unwrap();
        let busy = std::sync::Arc::new(Barrier::new(3));
        for _ in 0..2 {
            let busy = std::sync::Arc::clone(&busy);
            threads.pool.spawn(move || {
                busy.wait();
            });
        }
        with_pool(Some(&own), || {
            for _ in 0..2 {
                for_each_part(vec![(), ()], &|()| Ok::<_, ()>(())).unwrap();
            }
            assert_eq!(threads.seats.called.load(Ordering::Relaxed), 2);
            let (inside, started) = (AtomicUsize::new(0), Instant::now());
            let part = |()| {
                if inside.fetch_add(1, Ordering::Relaxed) == 0 {
                    busy.wait();
                }
                while inside.load(Ordering::Relaxed) < 2 {
                    if started.elapsed() > Duration::from_secs(20) {
                        return Err("no helper came");
                    }
                    std::thread::yield_now();
                }
                Ok(())
            };
            for_each_part(vec![(), ()], &part).unwrap();
        });
    }

    #[test]
    fn other_work_of_the_pool_does_not_starve() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let own = super::super::Pool::of(pool);
        let (threads, done) = (own.0.as_ref().unwrap(), &AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    with_pool(Some(&own), || {
                        while done.load(Ordering::Relaxed) < 20 {
                            together();
                        }
                    })
                });
            }
            for _ in 0..20 {
                threads.pool.install(|| done.fetch_add(1, Ordering::Relaxed));
            }
        });
    }
}
