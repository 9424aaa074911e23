//! The error type of this crate.

/// Why a model cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The family of the model is not among those of this crate.
    #[error("architecture {got:?} is not supported; this program runs {}", known.join(", "))]
    Family {
        /// The file's `general.architecture`, or `model_type` of a folder.
        got: String,
        /// The architectures that this crate runs.
        known: Vec<&'static str>,
    },
    /// A key of the metadata has a value that this crate cannot honour.
    #[error("metadata key `{key}`: got {got}, wanted {wanted}")]
    Key {
        /// The whole key.
        key: String,
        /// Its value.
        got: String,
        /// What would be accepted.
        wanted: String,
    },
    /// A tensor has no place in the model, or other extents than the metadata says.
    #[error("tensor {name}: got {got}, wanted {wanted}")]
    Tensor {
        /// The tensor.
        name: String,
        /// What the file has.
        got: String,
        /// What would be accepted.
        wanted: String,
    },
    /// Something in a folder of model files cannot be honoured.
    #[error("{}: {what}: got {got}, wanted {wanted}", path.display())]
    Folder {
        /// The file or the folder.
        path: std::path::PathBuf,
        /// The option, tensor or file.
        what: String,
        /// What it is.
        got: String,
        /// What would be accepted.
        wanted: String,
    },
    /// A step has no tokens, or more than fit.
    #[error("a step of {got} tokens after {before}: wanted 1 to {room}")]
    Tokens {
        /// The number of tokens given.
        got: usize,
        /// Tokens in the state.
        before: usize,
        /// Tokens that still fit.
        room: usize,
    },
    /// A text cannot go back to an earlier token, because layers keep one state for all of its tokens.
    #[error(
        "a text of {len} tokens cannot go back to {got}: recurrent layers keep no earlier state; truncate it to 0 and read its \
         tokens again"
    )]
    Rewind {
        /// The number of tokens to go back to.
        got: usize,
        /// Tokens in the state.
        len: usize,
    },
    /// A model cannot use pages, or not these.
    #[error("pages of a cache: got {got}, wanted {wanted}")]
    Pages {
        /// The model or the pages given.
        got: String,
        /// What would be accepted.
        wanted: String,
    },
    /// A text for an encoder has no tokens, or more than it takes.
    #[error("a text of {got} tokens: wanted 1 to {max}; cut longer ones with `truncate`")]
    Text {
        /// The number of tokens given.
        got: usize,
        /// Tokens that a text may have.
        max: usize,
    },
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] ops_gguf::Error),
    /// An op failed.
    #[error(transparent)]
    Op(#[from] ops_core::Error),
}

/// A result with this crate's error.
pub type Result<T> = core::result::Result<T, Error>;
