//! The one error type of the crate.

use std::path::PathBuf;

/// What went wrong, where, what was found and what was wanted.
///
/// Nothing in this crate panics on what a file says: every claim of a file is checked against the bytes it has, and a
/// false one ends here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb: "open", "map", "write".
        action: &'static str,
        /// The file, or `<stream>` where the caller supplied the reader or writer.
        path: PathBuf,
        /// The system's own error.
        source: std::io::Error,
    },

    /// A GGUF file, or something close to one, of a kind that is not read here.
    #[error("unsupported {what}: got {got}, wanted {wanted}; {remedy}")]
    Unsupported {
        /// The property that is not supported: the version, the byte order.
        what: &'static str,
        /// What the file has.
        got: String,
        /// What is read.
        wanted: &'static str,
        /// The way out.
        remedy: &'static str,
    },

    /// The file contradicts itself, or the format.
    #[error("malformed GGUF: {what}, at byte {at}: got {got}, wanted {wanted}")]
    Malformed {
        /// The field, with the key or tensor it belongs to.
        what: String,
        /// Where the field lies in the file.
        at: u64,
        /// What the file has.
        got: String,
        /// What the format, or the rest of the file, allows.
        wanted: String,
    },

    /// A metadata key that the caller needs is absent.
    #[error("no metadata key `{key}`, wanted {wanted}")]
    MissingKey {
        /// The key that was looked up.
        key: String,
        /// The type that was asked for.
        wanted: &'static str,
    },

    /// A metadata value has another type, or does not fit the type asked for.
    #[error("metadata key `{key}`{}: got {got}, wanted {wanted}", at_byte(*at))]
    KeyType {
        /// The key that was looked up.
        key: String,
        /// Where the pair lies in the file; `None` when the program set it.
        at: Option<u64>,
        /// The stored value and its type.
        got: String,
        /// The type that was asked for.
        wanted: String,
    },

    /// A tensor that the caller needs is absent.
    #[error("no tensor `{name}` among the {count} of this file{hint}")]
    MissingTensor {
        /// The name that was looked up.
        name: String,
        /// How many tensors the file has.
        count: usize,
        /// Where it may be instead; empty when nothing is known.
        hint: String,
    },

    /// A tensor cannot be used as asked.
    #[error("tensor `{name}`, data at byte {at}: got {got}, wanted {wanted}")]
    TensorType {
        /// The tensor.
        name: String,
        /// Where its data starts in the file.
        at: u64,
        /// What it is.
        got: String,
        /// What was asked for.
        wanted: String,
    },

    /// A backend that tensors were read to.
    #[cfg(feature = "weights")]
    #[error("reading tensors to a backend: {0}")]
    Backend(#[from] ops_core::Error),

    /// The caller gave the writer something that GGUF cannot hold.
    #[error("cannot write {what}: got {got}, wanted {wanted}")]
    Write {
        /// The key or tensor.
        what: String,
        /// What was given.
        got: String,
        /// What can be written.
        wanted: String,
    },

    /// The metadata describes no tokenizer that can be built.
    #[error("tokenizer: {what}: got {got}, wanted {wanted}")]
    Tokenizer {
        /// The key or token that is at fault.
        what: String,
        /// What the metadata has.
        got: String,
        /// What can be used.
        wanted: String,
    },

    /// A text cannot be written in this vocabulary.
    #[error("cannot encode the text at byte {at}: {reason}")]
    Encode {
        /// Where in the text, in bytes.
        at: usize,
        /// Why.
        reason: String,
    },

    /// A token id that the vocabulary does not have.
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

fn at_byte(at: Option<u64>) -> String {
    at.map_or_else(String::new, |at| format!(" at byte {at}"))
}

impl Error {
    /// An operating system error on a file.
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
