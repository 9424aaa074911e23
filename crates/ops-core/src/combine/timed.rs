//! A backend that counts the calls of each op and the time they take.
use super::{Intercept, Wrapper};
use crate::{Backend, Call, Execute, Op, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runs every op on `B`, and counts and times the calls of each op.
///
/// A call is timed until it returns: on a synchronous backend this is the whole computation, on a GPU only
/// the time to enqueue it.
///
/// ```
/// # use rocm_ops::Cpu;
/// use rocm_ops::combine::Timed;
/// use rocm_ops::{Backend, ops::*};
///
/// let timed = Timed::new(Cpu::new());
/// let x = timed.tensor(&[2], &[1.0_f32, 2.0])?;
/// timed.silu(timed.add(&x, &x)?)?;
/// let ops: Vec<_> = timed.times().iter().map(|time| (time.op, time.calls)).collect();
/// assert_eq!(ops, [("add", 1), ("silu", 1)]);
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timed<B> {
    inner: B,
    on: bool,
    times: Arc<Mutex<Vec<OpTime>>>,
}

/// The calls of one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpTime {
    /// The op, as [`Op::name_on`] names it.
    pub op: &'static str,
    /// Number of calls.
    pub calls: u64,
    /// Total time until they returned.
    pub time: Duration,
}

impl<B> Timed<B> {
    /// Times all calls of `inner`.
    pub fn new(inner: B) -> Self {
        Timed { inner, on: true, times: Arc::default() }
    }
    /// Sets whether to time calls. When off, a call costs the same as on the wrapped backend.
    pub fn on(self, on: bool) -> Self {
        Timed { on, ..self }
    }
    /// The wrapped backend.
    pub fn inside(&self) -> &B {
        &self.inner
    }
    /// The ops so far, in order of their first calls. Clones share the list.
    pub fn times(&self) -> Vec<OpTime> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Discards the counts so far.
    pub fn clear(&self) {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether calls are timed.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn note(&self, op: &'static str, took: Duration) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        match times.iter_mut().find(|time| time.op == op) {
            Some(known) => (known.calls, known.time) = (known.calls + 1, known.time + took),
            None => times.push(OpTime { op, calls: 1, time: took }),
        }
    }
}

impl<B: Backend> Wrapper for Timed<B> {
    type Inner = B;
    fn inner(&self) -> &B {
        &self.inner
    }
    fn around(&self, inner: B) -> Self {
        Timed { inner, ..self.clone() }
    }
}

impl<O: Op, B: Execute<O>> Intercept<O> for Timed<B> {
    fn execute(&self, call: Call<'_, '_, O, B::Space>) -> Result<()> {
        if !self.on {
            return self.inner.execute(call);
        }
        let (op, begin) = (call.name(), Instant::now());
        let done = self.inner.execute(call);
        // A call that is being recorded has not run yet.
        if !self.inner.capturing() {
            self.note(op, begin.elapsed());
        }
        done
    }
}
