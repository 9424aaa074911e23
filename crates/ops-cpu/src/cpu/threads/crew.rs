//! Runs one job on several threads, including the caller's.
//!
//! With rayon's own ways to share borrowed work, a caller from outside the pool waits until helpers have
//! woken. Here, a helper that arrives late finds the job closed, and the caller does not wait for it. Helpers that have just done a job
//! wait for the next one ([`Seats`](super::seats::Seats)).
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Set in `helpers` once the caller closes the job. The lower bits count the helpers inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Iterations of the waiting loop before it yields the processor.
const MAX_SPINS: u32 = 2000;

#[derive(Debug)]
pub(super) struct Job {
    /// Borrowed from the caller, which does not return until the job is closed and the last helper has left.
    f: *const (dyn Fn(usize) + Sync),
    tasks: usize,
    next: AtomicUsize,
    helpers: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}
// SAFETY: `f` points to a `Sync` closure and is only dereferenced by the caller's thread or between `enter` and `leave`,
// while the closure is alive. All other fields are `Send` and `Sync`.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    fn enter(&self) -> bool {
        let open = self.helpers.fetch_add(1, Ordering::Acquire) & CLOSED == 0;
        if !open {
            self.leave();
        }
        open
    }

    /// Whether helpers may still enter.
    pub(super) fn is_open(&self) -> bool {
        self.helpers.load(Ordering::Relaxed) & CLOSED == 0
    }

    fn leave(&self) {
        self.helpers.fetch_sub(1, Ordering::Release);
    }

    /// Runs tasks until none are left.
    ///
    /// # Safety
    /// `f` is alive: this is the caller's thread, or a thread between `enter` and `leave`.
    unsafe fn work(&self) {
        loop {
            let t = self.next.fetch_add(1, Ordering::Relaxed);
            if t >= self.tasks {
                return;
            }
            // SAFETY: alive, as this function's caller guarantees.
            let f = unsafe { &*self.f };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f(t))) {
                self.next.store(self.tasks, Ordering::Relaxed);
                self.record_panic(payload);
            }
        }
    }

    /// Keeps the first panic's payload for the caller. Nothing here may unwind: other threads still use the borrowed job.
    fn record_panic(&self, payload: Box<dyn Any + Send>) {
        let mut first = self.panic.lock().unwrap_or_else(|e| e.into_inner());
        match *first {
            None => *first = Some(payload),
            // Dropping a payload runs its destructor, which may panic again; leaking it cannot.
            Some(_) => core::mem::forget(payload),
        }
    }

    /// Takes part, unless the job is closed.
    pub(super) fn help(&self) {
        if self.enter() {
            // SAFETY: this thread is between `enter` and `leave`.
            unsafe { self.work() };
            self.leave();
        }
    }

    /// Closes the job to new helpers and waits for those inside to leave.
    fn close(&self) {
        self.helpers.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0;
        while self.helpers.load(Ordering::Acquire) != CLOSED {
            spins += 1;
            if spins < MAX_SPINS { core::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// Calls `f` with every index below `tasks`, on at most `threads` threads.
pub(super) fn run(tasks: usize, threads: usize, f: &(dyn Fn(usize) + Sync)) {
    // SAFETY: only the lifetime changes. `close` below returns after the last use of the pointer, and nothing before it
    // unwinds.
    let f = unsafe { core::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(f) };
    let job = Arc::new(Job {
        f,
        tasks,
        next: AtomicUsize::new(0),
        helpers: AtomicUsize::new(0),
        panic: Mutex::new(None),
    });
    super::call_helpers(&job, threads.min(tasks).saturating_sub(1));
    // SAFETY: this is the caller's thread, which holds the borrow of `f`.
    unsafe { job.work() };
    job.close();
    let payload = job.panic.lock().unwrap_or_else(|e| e.into_inner()).take();
    if let Some(payload) = payload {
        resume_unwind(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_short_jobs_from_many_threads() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..500 {
                        let sum = AtomicUsize::new(0);
                        run(n % 7, 3, &|t| {
                            sum.fetch_add(t + 1, Ordering::Relaxed);
                        });
                        let n = n % 7;
                        assert_eq!(sum.into_inner(), n * (n + 1) / 2);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        for _ in 0..20 {
            let panicked = catch_unwind(|| run(8, 4, &|t| assert!(t != 5, "task {t}")));
            assert!(panicked.is_err());
        }
        let done = AtomicUsize::new(0);
        run(8, 4, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 8);
    }

    #[test]
    fn a_payload_that_panics_when_dropped_unwinds_past_nobody() {
        /// Panics when dropped, unless the thread is already panicking.
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                if !std::thread::panicking() {
                    panic!("dropped");
                }
            }
        }
        for _ in 0..20 {
            // Both threads are inside their tasks before either panics, so there are two payloads.
            let inside = AtomicUsize::new(0);
            let panicked = catch_unwind(|| {
                run(2, 2, &|_| {
                    inside.fetch_add(1, Ordering::AcqRel);
                    while inside.load(Ordering::Acquire) < 2 {
                        std::thread::yield_now();
                    }
                    std::panic::panic_any(Bomb);
                })
            });
            // One payload arrives here. The other was leaked; dropping it would have aborted this test.
            core::mem::forget(panicked.expect_err("both tasks panicked"));
        }
    }

    #[test]
    fn a_job_within_a_job_ends() {
        let done = AtomicUsize::new(0);
        run(4, 2, &|_| {
            run(4, 2, &|_| {
                done.fetch_add(1, Ordering::Relaxed);
            })
        });
        assert_eq!(done.into_inner(), 16);
    }
}
