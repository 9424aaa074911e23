//! How the provider of an op is chosen: by the target and the policy, as decisions that can be inspected.
//!
//! Whether a provider *can* is a fact, which it states with a reason
//! ([`Provider::applicable`](crate::Provider::applicable)). Whether it *may* is a wish, the [`Policy`]. The first that can
//! and may does, in the policy's order or else in that of the op's list; in the latter a provider may let others go first
//! ([`Provider::defer`](crate::Provider::defer)). Nothing else decides, and nothing falls back silently.

mod condition;
mod decision;
mod error;
mod key;
mod policy;
mod target;

pub use decision::{Candidate, Decision, Verdict};
pub use error::PolicyError;
pub use policy::Policy;
pub use target::{Library, Target};

pub(crate) use decision::{Decisions, describe};
pub(crate) use policy::Ranking;
