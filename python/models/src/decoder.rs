//! A decoder with its tokenizer.
use rocm_ops::model::Transformer;
use rocm_ops::models::{Finish, GenerateOptions, Prompt, Result, TextModel, Token};
use rocm_ops::{Backend, Float};

/// A model that continues texts.
pub trait Decodes: Send + Sync {
    /// Number of ids.
    fn vocabulary(&self) -> usize;
    /// Maximum number of tokens in a text.
    fn context(&self) -> usize;
    /// Continues the prompt, and passes each token to `each`, which returns whether to go on. `None` if it did not.
    ///
    /// # Errors
    /// As [`TextModel::generate`].
    fn generate(
        &self,
        prompt: Prompt<'_>,
        options: GenerateOptions,
        each: &mut dyn FnMut(Token) -> bool,
    ) -> Result<Option<Finish>>;
    /// The logits after each of these tokens, in rows of [`vocabulary`](Self::vocabulary).
    ///
    /// # Errors
    /// As [`TextModel::tokens`], and those of the backend.
    fn logits(&self, ids: &[u32]) -> Result<Vec<f32>>;
}

pub(crate) struct Decoder<T: Float, B: Backend> {
    pub(crate) backend: B,
    pub(crate) model: TextModel<T, B>,
}

impl<T: Float, B: Transformer<T>> Decodes for Decoder<T, B> {
    fn vocabulary(&self) -> usize {
        self.model.decoder().vocabulary()
    }
    fn context(&self) -> usize {
        self.model.decoder().context()
    }
    fn generate(
        &self,
        prompt: Prompt<'_>,
        options: GenerateOptions,
        each: &mut dyn FnMut(Token) -> bool,
    ) -> Result<Option<Finish>> {
        let mut text = self.model.generate(&self.backend, prompt, options)?;
        for token in &mut text {
            if !each(token?) {
                return Ok(None);
            }
        }
        Ok(text.finish())
    }
    fn logits(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let ids = self.model.tokens(ids)?;
        let decoder = self.model.decoder();
        let mut state = decoder.state(&self.backend, ids.len())?;
        decoder.forward_all(&self.backend, &mut state, &ids)
    }
}
