//! How the provider of an op is chosen: by the target and the policy, as decisions that can be inspected.
//!
//! Whether a provider *can* compute an op is a fact, which it states with a reason
//! ([`Provider::applicable`](crate::Provider::applicable)). Whether it *may* is up to the user's [`Policy`].
//! The first provider that can and may is chosen, in the policy's order or otherwise in that of the op's
//! list; in the latter a provider may let others go first ([`Provider::defer`](crate::Provider::defer)).
//! Nothing else decides, and nothing falls back silently.
//!
//! # Layers
//!
//! A module of this crate uses those above it in this list, and none below:
//!
//! 1. `hip`, devices and memory; `error`
//! 2. `vendor`, AMD's libraries; `kernels`, this project's compiled kernels
//! 3. `choice`, which knows neither ops nor lists of providers
//! 4. `rocm`, the queue
//! 5. `provider`, how a call is matched with its provider; `backend`, memory and transfers
//! 6. `providers`, the lists and the implementations; it checks the names in policies, since it has the lists
//! 7. `builder`, `survey`

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
