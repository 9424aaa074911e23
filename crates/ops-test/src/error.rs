//! The error of cases.
use ops_core::Error;

/// Why a case could not be run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The case contradicts itself or the op's contract.
    #[error("{0}")]
    Malformed(String),
    /// This build does not have the op, or not for these types.
    #[error("{0}")]
    Unsupported(String),
    /// Memory or transfers failed outside the op.
    #[error(transparent)]
    Backend(#[from] Error),
}

impl CallError {
    /// Prefixes the message with what it is about.
    pub(crate) fn of(self, what: &str) -> Self {
        match self {
            CallError::Malformed(why) => CallError::Malformed(format!("{what}: {why}")),
            CallError::Unsupported(why) => CallError::Unsupported(format!("{what}: {why}")),
            backend => backend,
        }
    }
}
