//! One job for several threads, the caller's among them.
//!
//! The pool's own ways to share borrowed work make a caller from outside wait until helpers have
//! woken. Here helpers are invited, and those that come late find the job closed.
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The caller has left: nobody may enter any more. Below it, the number of helpers inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Turns of a waiting loop before the processor is offered to others.
const SPINS: u32 = 2000;

struct Job {
    /// Borrowed from the caller, who stays until the job is closed and the last helper has left.
    f: *const (dyn Fn(usize) + Sync),
    tasks: usize,
    next: AtomicUsize,
    door: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}
// SAFETY: `f` points to what may be shared among threads, and is only followed between `enter` and
// `leave`, while it is alive; everything else is made for sharing.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    fn enter(&self) -> bool {
        let open = self.door.fetch_add(1, Ordering::Acquire) & CLOSED == 0;
        if !open {
            self.leave();
        }
        open
    }

    fn leave(&self) {
        self.door.fetch_sub(1, Ordering::Release);
    }

    /// Does tasks until none is left.
    ///
    /// # Safety
    /// `f` is alive: this is the caller's thread, or one between `enter` and `leave`.
    unsafe fn work(&self) {
        loop {
            let t = self.next.fetch_add(1, Ordering::Relaxed);
            if t >= self.tasks {
                return;
            }
            // SAFETY: alive, as the caller of this function promises.
            let f = unsafe { &*self.f };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f(t))) {
                self.next.store(self.tasks, Ordering::Relaxed);
                self.keep(payload);
            }
        }
    }

    /// Keeps the first panic's payload for the caller. Nothing here unwinds: the job is borrowed, and whoever unwound past
    /// it would leave others working on it.
    fn keep(&self, payload: Box<dyn Any + Send>) {
        let mut kept = self.panic.lock().unwrap_or_else(|e| e.into_inner());
        match *kept {
            None => *kept = Some(payload),
            // Dropping a payload runs code of whoever panicked, which may panic again; a leak may not.
            Some(_) => core::mem::forget(payload),
        }
    }

    fn help(&self) {
        if self.enter() {
            // SAFETY: inside.
            unsafe { self.work() };
            self.leave();
        }
    }

    /// Lets nobody in any more and waits for those inside.
    fn close(&self) {
        self.door.fetch_or(CLOSED, Ordering::AcqRel);
        let mut turns = 0;
        while self.door.load(Ordering::Acquire) != CLOSED {
            turns += 1;
            if turns < SPINS { core::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// Calls `f` with every number below `tasks`, on at most `threads` threads.
pub(super) fn run(tasks: usize, threads: usize, f: &(dyn Fn(usize) + Sync)) {
    // SAFETY: only the lifetime changes. `close` below returns after the last use of the pointer, and nothing before it unwinds.
    let f = unsafe { core::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(f) };
    let job = Arc::new(Job {
        f,
        tasks,
        next: AtomicUsize::new(0),
        door: AtomicUsize::new(0),
        panic: Mutex::new(None),
    });
    for _ in 1..threads.min(tasks) {
        let job = Arc::clone(&job);
        super::spawn(move || job.help());
    }
    // SAFETY: the caller's thread, which still holds the borrow.
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
        /// Panics when it is dropped, except while the thread panics already.
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
            // One arrives, the other is never dropped: had it been, this thread would not come here.
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
