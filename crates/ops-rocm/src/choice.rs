//! What decides who computes an op: the target, the policy, and decisions that can be read.
//!
//! Whether a provider *can* is a fact, which it states with a reason
//! ([`Provider::applicable`](crate::Provider::applicable)). Whether it *may* is a wish, the [`Policy`]. The first that can
//! and may does, in the policy's order or else in that of the op's list; in the latter a provider may let others go first
//! ([`Provider::defer`](crate::Provider::defer)). Nothing else decides, and nothing falls back silently.
//!
//! The docs of the crate list the layers: this module knows neither ops nor lists of providers.

mod condition;
mod decision;
mod key;
mod policy;
mod target;

pub use decision::{Candidate, Decision, Verdict};
pub use policy::{Policy, PolicyError};
pub use target::{Library, Target};

pub(crate) use decision::{Decisions, describe};
pub(crate) use policy::Ranking;
