//! A backend that remembers the candidates for the last call it was asked about.
use crate::problem::{Candidate, Explain};
use ops_core::combine::{Intercept, Wrapper};
use ops_core::{Backend, Call, Execute, Op, Operands, Reason, Replay, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// A backend that can list its candidates for an op, in the order in which they are asked.
pub(super) trait Candidates<O: Op>: Execute<O> {
    /// Exactly one is taken if [`Execute::support`] accepts the call, none if it declines.
    fn candidates(&self, op: &O, on: &dyn Operands) -> Vec<Candidate>;
}

/// Runs ops as the wrapped backend does, and remembers the candidates of the last [`Execute::support`].
///
/// A wrapper is itself a backend, so one bound (that it has all ops) is enough everywhere. Code that required
/// [`Candidates`] directly would have to list that bound for every op and type.
#[derive(Clone, Debug)]
pub(crate) struct Observed<B> {
    inner: B,
    last: Arc<Mutex<Vec<Candidate>>>,
}

impl<B> Observed<B> {
    pub(super) fn new(inner: B) -> Self {
        Observed { inner, last: Arc::default() }
    }
    /// The wrapped backend.
    pub(super) fn inside(&self) -> &B {
        &self.inner
    }
}

impl<B: Backend> Explain for Observed<B> {
    fn last_candidates(&self) -> Vec<Candidate> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<B: Backend> Wrapper for Observed<B> {
    type Inner = B;
    fn inner(&self) -> &B {
        &self.inner
    }
    fn around(&self, inner: B) -> Self {
        Observed::new(inner)
    }
}

/// Every call is asked about, so none is recorded.
impl<B: Backend> Replay for Observed<B> {
    type Graph = std::convert::Infallible;
}

impl<O: Op, B: Candidates<O>> Intercept<O> for Observed<B> {
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = self.inner.candidates(op, on);
        self.inner.support(op, on)
    }
    /// With one row, every fused op that the backend supports is called as such: a trace is replayed on other backends, too. With more
    /// rows, its parts are called, so that `ops tune --trace` finds the products whose providers it measures.
    fn fuses(&self, op: &O, on: &dyn Operands) -> bool {
        let one_row = on.get("x").is_some_and(|x| x.layout.len() == x.layout.last());
        one_row && self.inner.support(op, on).is_ok()
    }
    fn execute(&self, call: Call<'_, '_, O, B::Space>) -> Result<()> {
        self.inner.execute(call)
    }
}
