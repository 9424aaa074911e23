//! The error type of this crate.

use std::path::PathBuf;

/// What went wrong and where, what was found and what was wanted.
///
/// Nothing in this crate panics on the contents of a file: every claim in a file is checked against its bytes, and a false
/// one becomes an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system reported an error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action as a verb: "open", "map", "write".
        action: &'static str,
        /// The file, or `<stream>` if the caller supplied the reader or writer.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },

    /// The file is of another kind.
    #[error("{} is {got}, wanted {wanted}; {remedy}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        got: String,
        /// What was wanted.
        wanted: &'static str,
        /// What the user can do.
        remedy: &'static str,
    },

    /// A variant of GGUF that this crate does not read.
    #[error("unsupported {what}: got {got}, wanted {wanted}; {remedy}")]
    Unsupported {
        /// The unsupported property: the version or the byte order.
        what: &'static str,
        /// What the file has.
        got: String,
        /// What this crate reads.
        wanted: &'static str,
        /// What the user can do.
        remedy: &'static str,
    },

    /// The file violates the format or contradicts itself.
    #[error("malformed GGUF: {what}, at byte {at}: got {got}, wanted {wanted}")]
    Malformed {
        /// The field, with the key or tensor it belongs to.
        what: String,
        /// Position of the field in the file.
        at: u64,
        /// What the file has.
        got: String,
        /// What the format, or the rest of the file, allows.
        wanted: String,
    },

    /// One part of a split model cannot be used.
    #[error("part of the model {}: {source}", path.display())]
    Part {
        /// The part's file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<Error>,
    },

    /// The parts of a split model do not belong together.
    #[error("split model {}: {what}: got {got}, wanted {wanted}", path.display())]
    Split {
        /// The part at fault, or the first one.
        path: PathBuf,
        /// The key, tensor or name.
        what: String,
        /// What the part has.
        got: String,
        /// What the other parts require.
        wanted: String,
    },

    /// A required metadata key is missing.
    #[error("no metadata key `{key}`, wanted {wanted}")]
    MissingKey {
        /// The key that was looked up.
        key: String,
        /// The requested type.
        wanted: &'static str,
    },

    /// A metadata value has another type or does not fit the requested type.
    #[error("metadata key `{key}`{}: got {got}, wanted {wanted}", at_byte(*at))]
    KeyType {
        /// The key that was looked up.
        key: String,
        /// Position of the pair in the file; `None` if the program set it.
        at: Option<u64>,
        /// The stored value and its type.
        got: String,
        /// The requested type.
        wanted: String,
    },

    /// A required tensor is missing.
    #[error("no tensor `{name}` among the {count} of this file{hint}")]
    MissingTensor {
        /// The name that was looked up.
        name: String,
        /// Number of tensors in the file.
        count: usize,
        /// Where the tensor may be instead; empty if unknown.
        hint: String,
    },

    /// A tensor cannot be used as requested.
    #[error("tensor `{name}`, data at byte {at}: got {got}, wanted {wanted}")]
    TensorType {
        /// The tensor.
        name: String,
        /// Position of its data in the file.
        at: u64,
        /// What the tensor is.
        got: String,
        /// What was requested.
        wanted: String,
    },

    /// A backend failed while tensors were read to it.
    #[error("reading tensors to a backend: {0}")]
    Backend(#[from] ops_core::Error),

    /// The writer was given something that GGUF cannot represent.
    #[error("cannot write {what}: got {got}, wanted {wanted}")]
    Write {
        /// The key or tensor.
        what: String,
        /// What was given.
        got: String,
        /// What can be written.
        wanted: String,
    },

    /// The metadata does not describe a usable tokenizer.
    #[error("tokenizer: {what}: got {got}, wanted {wanted}")]
    Tokenizer {
        /// The key or token with the problem.
        what: String,
        /// What the metadata has.
        got: String,
        /// What is supported.
        wanted: String,
    },

    /// The vocabulary cannot represent a text.
    #[error("cannot encode the text at byte {at}: {reason}")]
    Encode {
        /// Position in the text, in bytes.
        at: usize,
        /// Why.
        reason: String,
    },

    /// A token id that is not in the vocabulary.
    #[error("cannot decode token id {id}: the vocabulary has {vocab_size} tokens")]
    TokenId {
        /// The id.
        id: u32,
        /// One more than the largest valid id.
        vocab_size: usize,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Functions that call ops and read files can return the error of the ops for both.
impl From<Error> for ops_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Backend(error) => error,
            other => Self::other(other),
        }
    }
}

fn at_byte(at: Option<u64>) -> String {
    at.map_or_else(String::new, |at| format!(" at byte {at}"))
}

impl Error {
    /// Wraps an operating system error on a file.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }

    pub(crate) fn malformed(
        what: impl std::fmt::Display,
        at: usize,
        got: impl std::fmt::Display,
        wanted: impl std::fmt::Display,
    ) -> Self {
        Self::Malformed {
            what: what.to_string(),
            at: at as u64,
            got: got.to_string(),
            wanted: wanted.to_string(),
        }
    }

    /// An error of one part of a split model.
    pub(crate) fn part(path: impl Into<PathBuf>, source: Self) -> Self {
        Self::Part { path: path.into(), source: Box::new(source) }
    }

    pub(crate) fn split(
        path: impl Into<PathBuf>,
        what: impl std::fmt::Display,
        got: impl std::fmt::Display,
        wanted: impl std::fmt::Display,
    ) -> Self {
        let (what, got, wanted) = (what.to_string(), got.to_string(), wanted.to_string());
        Self::Split { path: path.into(), what, got, wanted }
    }

    pub(crate) fn write(
        what: impl std::fmt::Display,
        got: impl std::fmt::Display,
        wanted: impl std::fmt::Display,
    ) -> Self {
        Self::Write { what: what.to_string(), got: got.to_string(), wanted: wanted.to_string() }
    }

    #[cfg(feature = "tokenizer")]
    pub(crate) fn tokenizer(
        what: impl std::fmt::Display,
        got: impl std::fmt::Display,
        wanted: impl std::fmt::Display,
    ) -> Self {
        Self::Tokenizer { what: what.to_string(), got: got.to_string(), wanted: wanted.to_string() }
    }
}
