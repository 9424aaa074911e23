//! Who would run an op, and why.
use ops_core::combine::Wrapper;
use ops_core::{Backend, Call, Execute, Op, Operands, Reason, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// One way to run an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its name: a provider of the backend, or the backend itself.
    pub(crate) provider: &'static str,
    /// Whether it is the one that runs.
    pub(crate) taken: bool,
    /// Why it was taken or passed over.
    pub(crate) reason: String,
}

/// A backend that can name its candidates for an op, in the order in which they are asked.
pub(crate) trait Candidates<O: Op>: Execute<O> {
    /// Exactly one is taken where [`Execute::support`] says yes, none where it says no.
    fn candidates(&self, op: &O, on: &dyn Operands) -> Vec<Candidate>;
}

impl Candidate {
    /// The one candidate of a backend that has one kernel for each op.
    pub(crate) fn only(backend: &'static str, support: Result<(), Reason>, reason: &str) -> Self {
        let taken = support.is_ok();
        let reason = support.map_or_else(|declined| declined.to_string(), |()| reason.to_owned());
        Candidate { provider: backend, taken, reason }
    }
}

/// A backend that remembers the candidates it was last asked for.
///
/// It runs ops as the backend inside does. Being a backend, it goes wherever one is wanted, with one
/// bound for all ops; a list of bounds on [`Candidates`] would repeat that bound.
#[derive(Clone, Debug)]
pub(crate) struct Observed<B> {
    inner: B,
    last: Arc<Mutex<Vec<Candidate>>>,
}

impl<B> Observed<B> {
    pub(crate) fn new(inner: B) -> Self {
        Observed { inner, last: Arc::default() }
    }
    /// The backend inside.
    pub(crate) fn inside(&self) -> &B {
        &self.inner
    }
}

/// What [`Observed`] adds to a backend.
pub(crate) trait Observing: Backend {
    /// The candidates of the last [`Execute::support`].
    fn last_candidates(&self) -> Vec<Candidate>;
}
impl<B: Backend> Observing for Observed<B> {
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

impl<O: Op, B: Candidates<O>> Execute<O> for Observed<B> {
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = self.inner.candidates(op, on);
        self.inner.support(op, on)
    }
    fn execute(&self, call: Call<'_, '_, O, Self::Space>) -> Result<()> {
        self.inner.execute(call)
    }
}
