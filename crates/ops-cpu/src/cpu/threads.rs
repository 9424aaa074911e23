//! Splits work over the threads of a rayon pool.
//!
//! The pool is the one that the backend was [built](super::CpuBuilder::threads) with. Otherwise it is the one
//! that the caller runs in, or else the global one, whose size `RAYON_NUM_THREADS` or
//! `rayon::ThreadPoolBuilder` sets. The global pool is built at the first call; if the system starts too few threads for it, calls use a
//! smaller pool or only the caller's thread. The caller works too: on a busy machine it may finish before a helper
//! comes, and then does not wait for any. On pools of backends and the global one, helpers wait a moment for the next call (`seats.rs`).
use super::vectors::TaskResult;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::panic::{RefUnwindSafe, UnwindSafe};
use crew::Job;
use rayon::ThreadPool;
use seats::Seats;
use std::error::Error as _;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

mod crew;
mod seats;

/// A call that touches at most this many elements stays on the caller's thread: calling another costs more than it gains.
pub(super) const MAX_SERIAL_ELEMENTS: usize = 1 << 15;

/// A pool that is not rayon's global one; `None` has only the caller's thread. Its threads end with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Pool(Option<Arc<Threads>>);

#[derive(Debug)]
struct Threads {
    pool: ThreadPool,
    seats: Arc<Seats>,
}

impl Pool {
    fn of(pool: ThreadPool) -> Self {
        let seats = Arc::new(Seats::new(pool.current_num_threads()));
        Pool(Some(Arc::new(Threads { pool, seats })))
    }

    fn threads(&self) -> usize {
        self.0.as_ref().map_or(1, |threads| threads.pool.current_num_threads())
    }
}

// A pool catches panics of its jobs, and stays usable.
impl UnwindSafe for Pool {}
impl RefUnwindSafe for Pool {}

thread_local! {
    /// The pool of the backend whose kernel this thread runs, if it has its own.
    static POOL: RefCell<Option<Pool>> = const { RefCell::new(None) };
    /// What that backend requires of the kernel.
    static MODE: Cell<Mode> = const { Cell::new(Mode { by_row: false, exact: false }) };
}

/// What a backend requires of its kernels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    /// Each row is summed in an order that does not depend on other rows: [`Determinism::Batch`](ops_core::Determinism).
    pub(super) by_row: bool,
    /// Activations are not rounded for products with quantized weights: [`Activations::Exact`](super::Activations).
    pub(super) exact: bool,
}

/// Runs a kernel, or a part of one, in this mode.
#[inline]
pub(super) fn with_mode<R>(mode: Mode, kernel: impl FnOnce() -> R) -> R {
    struct Restore(Mode);
    impl Drop for Restore {
        fn drop(&mut self) {
            MODE.set(self.0);
        }
    }
    if MODE.get() == mode {
        return kernel();
    }
    let _restore = Restore(MODE.replace(mode));
    kernel()
}

/// See [`Mode::by_row`].
pub(super) fn by_row() -> bool {
    MODE.get().by_row
}

/// See [`Mode::exact`].
pub(super) fn exact() -> bool {
    MODE.get().exact
}

/// Runs the tasks of a call on its threads, in its mode.
fn run(tasks: usize, f: &(dyn Fn(usize) + Sync)) {
    let mode = MODE.get();
    crew::run(tasks, count(), &|t| with_mode(mode, || f(t)));
}

/// Runs a kernel on this pool; without one, on the caller's.
#[inline]
pub(super) fn with_pool<R>(pool: Option<&Pool>, kernel: impl FnOnce() -> R) -> R {
    struct Restore(Option<Pool>);
    impl Drop for Restore {
        fn drop(&mut self) {
            POOL.set(self.0.take());
        }
    }
    let Some(pool) = pool else { return kernel() };
    let _restore = Restore(POOL.replace(Some(pool.clone())));
    kernel()
}

/// What replaces rayon's global pool if the system starts too few threads for it.
#[derive(Debug)]
struct Replacement {
    pool: Pool,
    /// Why the global pool could not be built.
    why: String,
}

/// Builds rayon's global pool, once. Returns what replaces it if that fails: rayon panics whenever it is used then.
fn replacement() -> Option<&'static Replacement> {
    static REPLACEMENT: OnceLock<Option<Replacement>> = OnceLock::new();
    let build = || {
        let failed = rayon::ThreadPoolBuilder::new().build_global().err()?;
        // Without a source, the program has built the pool already.
        let why = failed.source()?.to_string();
        let wanted = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
        let wanted = wanted.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
        Some(Replacement { pool: largest(wanted.unwrap_or(1) / 2, start), why })
    };
    REPLACEMENT.get_or_init(build).as_ref()
}

/// The first pool that starts, with `threads` threads, half of them, and so on.
fn largest<E>(mut threads: usize, start: impl Fn(usize) -> Result<ThreadPool, E>) -> Pool {
    while threads > 1 {
        // The threads of the pool that failed count until they have ended.
        std::thread::sleep(Duration::from_millis(50));
        if let Ok(pool) = start(threads) {
            return Pool::of(pool);
        }
        threads /= 2;
    }
    Pool(None)
}

fn start(threads: usize) -> Result<ThreadPool, rayon::ThreadPoolBuildError> {
    let name = move |at| format!("ops-cpu {at}/{threads}");
    rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build()
}

/// Why the system's limits leave calls fewer threads than usual; `None` if they do not.
pub(super) fn refused() -> Option<&'static str> {
    replacement().map(|replacement| replacement.why.as_str())
}

/// Calls `f` with the pool for calls of this thread; `None` for the rayon pool that it runs in or rayon's global one.
fn with_current<R>(f: impl FnOnce(Option<&Pool>) -> R) -> R {
    POOL.with_borrow(|own| match own {
        Some(pool) => f(Some(pool)),
        None if rayon::current_thread_index().is_some() => f(None),
        None => f(replacement().map(|replacement| &replacement.pool)),
    })
}

/// The pool with this number of threads, which all backends with that number share.
///
/// # Errors
/// The system cannot start more threads.
pub(super) fn pool(threads: usize) -> Result<Pool, rayon::ThreadPoolBuildError> {
    static POOLS: Mutex<Vec<Weak<Threads>>> = Mutex::new(Vec::new());
    if threads == 1 {
        return Ok(Pool(None));
    }
    let mut pools = POOLS.lock().unwrap_or_else(|e| e.into_inner());
    pools.retain(|pool| pool.strong_count() > 0);
    let mut shared = pools.iter().filter_map(Weak::upgrade).map(|threads| Pool(Some(threads)));
    if let Some(pool) = shared.find(|pool| pool.threads() == threads) {
        return Ok(pool);
    }
    let pool = Pool::of(start(threads)?);
    pools.extend(pool.0.as_ref().map(Arc::downgrade));
    Ok(pool)
}

/// Threads that a call may use, including the caller's.
pub(super) fn count() -> usize {
    with_current(|pool| pool.map_or_else(rayon::current_num_threads, Pool::threads))
}

/// Lets at most `helpers` other threads of the pool take part in a job.
fn call_helpers(job: &Arc<Job>, helpers: usize) {
    with_current(|pool| match pool {
        Some(Pool(Some(threads))) => {
            call(job, helpers, Some(&threads.seats), &|help| threads.pool.spawn(help));
        }
        // `count` is 1, so no job needs helpers.
        Some(Pool(None)) => {}
        // A thread of rayon calls only its own pool, whose seats are not known here.
        None if rayon::current_thread_index().is_some() => {
            call(job, helpers, None, &|help| rayon::spawn(help))
        }
        None => call(job, helpers, Some(global_seats()), &|help| rayon::spawn(help)),
    });
}

/// Gives the job to threads that wait, and starts as many others as are missing.
fn call(
    job: &Arc<Job>,
    helpers: usize,
    seats: Option<&Arc<Seats>>,
    spawn: &dyn Fn(Box<dyn FnOnce() + Send>),
) {
    let given = seats.map_or(0, |seats| seats.give(job, helpers));
    for _ in given..helpers {
        let job = Arc::clone(job);
        let Some(seats) = seats.cloned() else {
            spawn(Box::new(move || job.help()));
            continue;
        };
        if !seats.try_call(&job) {
            return;
        }
        spawn(Box::new(move || {
            seats.arrive(job);
            if let Some(index) = rayon::current_thread_index() {
                seats.wait(index);
            }
        }));
    }
}

/// Seats of rayon's global pool.
fn global_seats() -> &'static Arc<Seats> {
    static SEATS: OnceLock<Arc<Seats>> = OnceLock::new();
    SEATS.get_or_init(|| Arc::new(Seats::new(rayon::current_num_threads())))
}

/// Tasks for a large call: several per thread, so that one slow thread does not delay the whole call.
pub(super) fn tasks() -> usize {
    count() * 4
}

/// Calls `f` on ranges that cover `0..items`, in parallel if the work is large enough; `cost` is the work of an item, in
/// elements. Returns the first fault that is reported; the other ranges may have been visited or not.
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
    run(items.div_ceil(step), &|t| first.record(f(t * step..items.min((t + 1) * step))));
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
    run(slots.len(), &|t| {
        let part = slots[t].lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(part) = part {
            first.record(f(part));
        }
    });
    first.into_result()
}

/// Writes zeros, on threads if there are many.
pub(super) fn zero(bytes: &mut [u8]) {
    let least = MAX_SERIAL_ELEMENTS * size_of::<f32>();
    if bytes.len() <= least {
        return bytes.fill(0);
    }
    let part = bytes.len().div_ceil(count()).max(least);
    let Ok(()) = for_each_part(bytes.chunks_mut(part).collect(), &|part: &mut [u8]| {
        part.fill(0);
        Ok::<_, core::convert::Infallible>(())
    });
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
    fn a_kernel_uses_the_pool_of_its_backend_and_no_later_one_does() {
        let (one, three) = (pool(1).unwrap(), pool(3).unwrap());
        let outside = count();
        assert_eq!(with_pool(Some(&three), || (count(), with_pool(Some(&one), count), count())), (3, 1, 3));
        assert_eq!(with_pool(None, count), outside);
        let panicked = std::panic::catch_unwind(|| with_pool(Some(&three), || panic!("a kernel's")));
        assert_eq!((panicked.is_err(), count()), (true, outside));
        assert!(Arc::ptr_eq(three.0.as_ref().unwrap(), &pool(3).unwrap().0.unwrap()));
        let names = Mutex::new(Vec::new());
        let note = |_| {
            names.lock().unwrap().push(std::thread::current().name().map(str::to_owned));
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        };
        with_pool(Some(&three), || split(12, usize::MAX, &note)).unwrap();
        assert!(names.into_inner().unwrap().iter().flatten().any(|name| name.starts_with("ops-cpu")));
    }

    #[test]
    fn a_smaller_pool_or_none_replaces_one_that_does_not_start() {
        let up_to = |most: usize| move |n: usize| if n <= most { start(n).map_err(drop) } else { Err(()) };
        assert_eq!(largest(16, up_to(5)).threads(), 4);
        let none = largest(16, up_to(0));
        assert_eq!((none.threads(), largest(0, up_to(9)).threads()), (1, 1));
        let sum = AtomicUsize::new(0);
        with_pool(Some(&none), || {
            split(100, usize::MAX, &|range| {
                sum.fetch_add(range.len(), Ordering::Relaxed);
                Ok(())
            })
        })
        .unwrap();
        assert_eq!(sum.into_inner(), 100);
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
