//! How the provider of an op is chosen: by the target and the policy, as decisions that can be inspected.
//!
//! Whether a provider *can* compute an op is a fact, which it states with a reason
//! ([`Provider::applicable`](crate::Provider::applicable)). Whether it *may* is up to the user's [`Policy`].
//! The first provider that can and may is chosen, in the policy's order or otherwise in that of the op's
//! list; in the latter a provider may let others go first ([`Provider::defer`](crate::Provider::defer)).
//! An order that `ops tune` measured for a class of problems replaces that of the list. Nothing else decides, and nothing falls
//! back silently.

mod condition;
mod decision;
mod error;
mod key;
mod measured;
mod policy;
mod target;

pub use decision::{Candidate, Decision, Verdict};
pub use error::PolicyError;
pub use measured::{Measurement, class_of};
pub use policy::Policy;
pub use target::{Library, Target};

pub(crate) use decision::{Decisions, describe};
pub(crate) use measured::Measured;
pub(crate) use policy::Ranking;
