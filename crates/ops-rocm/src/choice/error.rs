//! The error of policies.
use ops_core::UnknownDeterminism;

/// An invalid policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// An order names a provider that the op does not have.
    #[error("policy: {op} has no provider {provider:?}; it has {has}")]
    NoSuchProvider {
        /// The op.
        op: String,
        /// The provider named.
        provider: String,
        /// The op's providers.
        has: String,
    },
    /// The level of determinism does not exist.
    #[error("policy: {0}")]
    Determinism(UnknownDeterminism),
    /// The text is not a policy.
    #[error(
        "policy: {text:?} is not OP=PROVIDER,PROVIDER or OP[CONDITION,CONDITION]=PROVIDER; rules are separated by `;`, \
         and `*` is any op"
    )]
    Syntax {
        /// The part that cannot be read.
        text: String,
    },
    /// The text in brackets is not a condition.
    #[error(
        "policy: {text:?} is not a condition; one compares rows or columns with a number by <=, <, >=, > or =, as in \
         linear[rows<=8]=hip"
    )]
    Condition {
        /// The condition that cannot be read.
        text: String,
    },
    /// The file cannot be read, or is not a policy.
    #[error("policy file {path}: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
}
