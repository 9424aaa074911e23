//! The error type of this crate.

/// Why a model cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model's family is not supported by this crate.
    #[error("architecture {got:?} is not supported; this program runs {}", known.join(", "))]
    Family {
        /// The file's `general.architecture`, or `model_type` of a folder.
        got: String,
        /// The architectures supported by this crate.
        known: Vec<&'static str>,
    },
    /// A metadata key has a value that this crate does not support.
    #[error("metadata key `{key}`: got {got}, wanted {wanted}")]
    Key {
        /// The whole key.
        key: String,
        /// Its value.
        got: String,
        /// What would be accepted.
        wanted: String,
    },
    /// A tensor does not belong to the model, or its extents differ from the metadata.
    #[error("tensor {name}: got {got}, wanted {wanted}")]
    Tensor {
        /// The tensor.
        name: String,
        /// What the file has.
        got: String,
        /// What would be accepted.
        wanted: String,
    },
    /// Something in a folder of model files is not supported.
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
    /// A state was asked for more tokens than the model was loaded for.
    #[error("a state for {got} tokens: wanted at most {max}, the context; load the model for a longer one")]
    Capacity {
        /// The number of tokens asked for.
        got: usize,
        /// The context that the model was loaded for.
        max: usize,
    },
    /// The model's weights do not fit the device's memory. Nothing was loaded.
    #[error(
        "the weights need {:.2} GiB of memory on {backend}, but {:.2} GiB are free; end other programs that use the device, or take \
         a smaller or a quantized model", gib(*.needed), gib(*.free)
    )]
    Memory {
        /// The backend.
        backend: &'static str,
        /// Bytes of the weights.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A saved state does not fit.
    #[error("saved state: got {got}, wanted {wanted}")]
    Saved {
        /// What it holds.
        got: String,
        /// What this state can take.
        wanted: String,
    },
    /// A text cannot go back to an earlier token, because layers keep a single state for all of its tokens.
    #[error(
        "a text of {len} tokens cannot go back to {got}: recurrent layers keep no earlier state; return to a snapshot, or truncate \
         it to 0 and read its tokens again"
    )]
    Rewind {
        /// The number of tokens to go back to.
        got: usize,
        /// Tokens in the state.
        len: usize,
    },
    /// A model cannot use pages, or not these.
    #[error("pages: got {got}, wanted {wanted}")]
    Pages {
        /// The model or the pages given.
        got: String,
        /// What would be accepted.
        wanted: String,
    },
    /// A text for an encoder has no tokens, or too many.
    #[error("a text of {got} tokens: wanted 1 to {max}; shorten longer ones with `truncate`")]
    Text {
        /// The number of tokens given.
        got: usize,
        /// Maximum number of tokens in a text.
        max: usize,
    },
    /// A prompt is empty, or longer than the context.
    #[error("the prompt has {got} tokens, wanted 1 to {max}")]
    Prompt {
        /// The number of tokens given.
        got: usize,
        /// Maximum number of tokens in a text.
        max: usize,
    },
    /// A prompt has a token that the model does not know.
    #[error("the prompt has token {id}, but the model has {vocabulary} tokens")]
    PromptId {
        /// The token.
        id: u32,
        /// Number of tokens in the vocabulary.
        vocabulary: usize,
    },
    /// An option of generation is out of its range.
    #[error("option `{name}`: got {got}, wanted {wanted}")]
    Option {
        /// The option.
        name: &'static str,
        /// Its value.
        got: String,
        /// What would be accepted.
        wanted: String,
    },
    /// A text was given to a model that has no tokenizer.
    #[error(
        "the prompt is a text, but the model was made without a tokenizer: give token ids, or a tokenizer to `TextModel::new`"
    )]
    NoTokenizer,
    /// A conversation cannot be rendered.
    #[error("{what}: {reason}")]
    Chat {
        /// The template or the messages, with the file if there is one.
        what: String,
        /// What is wrong, and what was wanted.
        reason: String,
    },
    /// No token can be drawn.
    #[error(transparent)]
    Nan(#[from] NanLogit),
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] ops_gguf::Error),
    /// An op failed.
    #[error(transparent)]
    Op(#[from] ops_core::Error),
}

/// Functions that call ops and run models can return the error of the ops for both.
impl From<Error> for ops_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Op(error) => error,
            Error::File(error) => error.into(),
            other => Self::other(other),
        }
    }
}

impl From<NanLogit> for ops_core::Error {
    fn from(error: NanLogit) -> Self {
        Self::other(error)
    }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// A result with this crate's error.
pub type Result<T> = core::result::Result<T, Error>;

/// A logit is NaN, so no token can be drawn. Other texts of the step are unaffected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "after the token at position {position}, the logit of id {id} is NaN, wanted a number; compute in f32, or check the weights of \
     the model"
)]
#[non_exhaustive]
pub struct NanLogit {
    /// The position in its text, from 0, of the token that the logits follow.
    pub position: usize,
    /// The first id whose logit is NaN.
    pub id: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_small_enough_to_return_everywhere() {
        assert!(size_of::<Error>() < 128, "{}", size_of::<Error>());
    }

    #[test]
    fn errors_of_models_and_files_become_one() {
        fn step(error: Error) -> ops_core::Result<()> {
            Err(error)?
        }
        let option = || Error::Option { name: "top_p", got: "2".into(), wanted: "0 to 1".into() };
        let error = step(option()).unwrap_err();
        assert_eq!(error.to_string(), option().to_string());
        let ops_core::Error::Other(inner) = error else { panic!("{error:?}") };
        assert!(matches!(inner.downcast_ref(), Some(Error::Option { name: "top_p", .. })));

        let file = || ops_gguf::Error::MissingKey { key: "general.name".into(), wanted: "a string" };
        let ops_core::Error::Other(inner) = step(file().into()).unwrap_err() else { panic!() };
        assert_eq!(inner.downcast_ref::<ops_gguf::Error>().unwrap().to_string(), file().to_string());

        let op = step(ops_core::Error::Rank { got: 9, max: 6 }.into()).unwrap_err();
        assert!(matches!(op, ops_core::Error::Rank { got: 9, .. }), "an op's error is itself: {op:?}");
    }
}
