//! Which providers could run an op, and why.
use ops_core::{Backend, Determinism, Reason, Result};

/// One way to run an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// A provider of the backend, or the backend itself.
    pub(crate) provider: &'static str,
    /// Whether it is the one that runs the op.
    pub(crate) taken: bool,
    /// The determinism that it guarantees; `None` if it cannot run the op.
    pub(crate) determinism: Option<Determinism>,
    /// Why it was chosen or not.
    pub(crate) reason: String,
    /// The class of problems whose measured order a GPU follows.
    pub(crate) class: Option<String>,
}

impl Candidate {
    /// The only candidate of a backend with a single kernel per op.
    pub(crate) fn only(
        backend: &'static str,
        support: Result<(), Reason>,
        determinism: Determinism,
        reason: &str,
    ) -> Self {
        let taken = support.is_ok();
        let determinism = taken.then_some(determinism);
        let reason = support.map_or_else(|declined| declined.to_string(), |()| reason.to_owned());
        Candidate { provider: backend, taken, determinism, reason, class: None }
    }
}

/// A backend that can list the candidates for the last call it was asked about.
pub(crate) trait Explain: Backend {
    /// The candidates of the last [`Execute::support`](ops_core::Execute::support), in the order in which they are asked.
    fn last_candidates(&self) -> Vec<Candidate>;
}
