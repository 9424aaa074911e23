//! Who computes an op: for each op a list of providers, a policy that orders or forbids them, and decisions that can be
//! read.
//!
//! Whether a provider *can* is a fact, which it states with a reason ([`Provider::applicable`]). Whether it *may* is a
//! wish, the [`Policy`]. The first that can and may does. Nothing else decides, and nothing falls back silently.

mod decision;
mod key;
mod policy;
mod target;

pub use decision::{Candidate, Decision, Verdict};
pub use policy::{Policy, PolicyError};
pub use target::{Library, Target};

pub(crate) use decision::{Decisions, describe};

use crate::{HipSpace, ProviderId, Rocm};
use ops_core::{Call, Op, Operands, Reason, Result};

/// One way to compute one op.
pub trait Provider<O: Op>: Sync {
    /// The name.
    fn id(&self) -> ProviderId;

    /// Whether this provider computes the right result for this problem on this device. Nothing is allocated on the
    /// device and nothing enqueued.
    ///
    /// # Errors
    /// Why not.
    fn applicable(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<(), Reason>;

    /// How it would compute a problem that it can, where there is something to tell.
    fn how(&self, _target: &Target, _op: &O, _on: &dyn Operands) -> Option<String> {
        None
    }

    /// Enqueues the op. It was found applicable.
    ///
    /// # Errors
    /// On [`Error::Unsupported`](ops_core::Error::Unsupported) no output was touched.
    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, O, HipSpace>) -> Result<()>;
}

/// The providers of an op, best first: all that [`Rocm`] needs to execute it.
///
/// Other crates add ops of their own: `impl Providers<MyOp> for Rocm { const LIST: .. = &[&MyProvider]; }`
#[diagnostic::on_unimplemented(
    message = "`Rocm` has no providers for `{O}`",
    note = "write `impl Providers<{O}> for Rocm`, or wrap the backend as `Fallback::new(rocm, Cpu::new())`"
)]
pub trait Providers<O: Op> {
    /// Best first.
    const LIST: &'static [&'static dyn Provider<O>];
}

/// The candidates for a problem by rank, and which of them is chosen.
pub(crate) fn decide<O: Op>(
    list: &[&dyn Provider<O>],
    policy: &Policy,
    target: &Target,
    op: &O,
    on: &dyn Operands,
) -> (Option<usize>, Vec<Candidate>) {
    let ids: Vec<ProviderId> = list.iter().map(|provider| provider.id()).collect();
    let (ranked, forbidden) = policy.rank(op.name_on(on), &ids);
    let mut chosen = None;
    let mut candidates = Vec::with_capacity(list.len());
    for at in ranked {
        let verdict = match list[at].applicable(target, op, on) {
            Ok(()) if chosen.is_none() => {
                chosen = Some(at);
                Verdict::Chosen
            }
            Ok(()) => Verdict::Available,
            Err(reason) => Verdict::Declined(reason),
        };
        let can = !matches!(verdict, Verdict::Declined(_));
        let how = if can { list[at].how(target, op, on) } else { None };
        candidates.push(Candidate { provider: ids[at], verdict, how });
    }
    let refused =
        |at: usize| Candidate { provider: ids[at], verdict: Verdict::Declined(Reason::Policy), how: None };
    candidates.extend(forbidden.into_iter().map(refused));
    (chosen, candidates)
}
