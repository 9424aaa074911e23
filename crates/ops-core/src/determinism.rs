//! Determinism: how far the bits of a result are guaranteed.
use std::fmt;
use std::str::FromStr;

/// What a backend guarantees about the bits of a result. Each level includes those before it.
///
/// ```
/// use rocm_ops::Determinism;
///
/// assert!(Determinism::Run < Determinism::Batch && Determinism::Batch < Determinism::Exact);
/// assert_eq!("batch".parse(), Ok(Determinism::Batch));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Determinism {
    /// The same call on the same machine gives the same bits.
    #[default]
    Run,
    /// In addition, a row (a token, a sequence, an expert's row) gives the same bits whatever other rows are
    /// in the call, and however a prefill is split.
    Batch,
    /// In addition, every backend with this level gives the same bits, except for the sign of a zero and the
    /// bits of a NaN.
    Exact,
}

impl Determinism {
    /// All levels, the weakest first.
    pub const ALL: [Determinism; 3] = [Determinism::Run, Determinism::Batch, Determinism::Exact];

    /// The name in commands and policies.
    pub fn name(self) -> &'static str {
        match self {
            Determinism::Run => "run",
            Determinism::Batch => "batch",
            Determinism::Exact => "exact",
        }
    }
}

impl fmt::Display for Determinism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that is not a level of determinism.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a level of determinism; those are run, batch and exact")]
pub struct UnknownDeterminism(String);

impl FromStr for Determinism {
    type Err = UnknownDeterminism;

    fn from_str(text: &str) -> Result<Self, UnknownDeterminism> {
        let known = Determinism::ALL.into_iter().find(|level| level.name() == text);
        known.ok_or_else(|| UnknownDeterminism(text.to_string()))
    }
}
