//! Generation of text: a model with its tokenizer, texts that grow one token at a time, and batches of them.
use crate::{Config, Decoder, Error, Result};
use ops_core::model::Transformer;
use ops_core::{Backend, Float};
use ops_gguf::{Gguf, Tokenizer};

mod batch;
mod generation;
mod options;
mod schedule;
mod stats;
mod text;

pub use batch::{Batch, BatchEvent, BatchOptions};
pub use generation::Generation;
pub use options::{GenerateOptions, Overflow};
pub use stats::BatchStats;
pub use text::{Finish, Token};

/// A decoder with its tokenizer: text in, text out.
///
/// ```no_run
/// use rocm_ops::models::{GenerateOptions, TextModel};
///
/// let (cpu, file) = (rocm_ops::Cpu::new(), rocm_ops::models::open("Qwen3-0.6B")?);
/// let model = TextModel::<f32, _>::load(&cpu, &file, 4096)?;
/// let options = GenerateOptions { max_tokens: 64, stop: vec!["\n\n".into()], ..Default::default() };
/// for token in model.generate(&cpu, "Once upon a time", options)? {
///     print!("{}", token?.text);
/// }
/// # Ok::<(), rocm_ops::models::Error>(())
/// ```
///
/// [`generate`](Self::generate) continues one text, [`Generation::step`] several at once, and [`batch`](Self::batch) many, which join
/// and leave at any step. For the same prompt and options, all three draw the same tokens from the same logits. At determinism *run*, logits may
/// differ in their last bits.
pub struct TextModel<T: Float, B: Backend> {
    decoder: Decoder<T, B>,
    tokenizer: Option<Tokenizer>,
    records: bool,
}

/// A text to continue: a string, whose special tokens count as plain text, or token ids, which are used exactly as they are.
#[derive(Clone, Copy, Debug)]
pub enum Prompt<'p> {
    /// A text, encoded with [`Tokenizer::encode`].
    Text(&'p str),
    /// Token ids, such as those of a conversation.
    Ids(&'p [u32]),
}

impl<'p> From<&'p str> for Prompt<'p> {
    fn from(text: &'p str) -> Self {
        Prompt::Text(text)
    }
}
impl<'p> From<&'p String> for Prompt<'p> {
    fn from(text: &'p String) -> Self {
        Prompt::Text(text)
    }
}
impl<'p> From<&'p [u32]> for Prompt<'p> {
    fn from(ids: &'p [u32]) -> Self {
        Prompt::Ids(ids)
    }
}
impl<'p, const N: usize> From<&'p [u32; N]> for Prompt<'p> {
    fn from(ids: &'p [u32; N]) -> Self {
        Prompt::Ids(ids)
    }
}
impl<'p> From<&'p Vec<u32>> for Prompt<'p> {
    fn from(ids: &'p Vec<u32>) -> Self {
        Prompt::Ids(ids)
    }
}

impl<T: Float, B: Transformer<T>> TextModel<T, B> {
    /// Loads the model in `gguf` and its tokenizer, for texts of up to `context` tokens, or of fewer if the model was trained for fewer.
    ///
    /// # Errors
    /// As [`Decoder::load`], and [`Error::File`] for a tokenizer that is missing or damaged.
    pub fn load(b: &B, gguf: &Gguf, context: usize) -> Result<Self> {
        let config = Config::new(gguf.metadata())?;
        let tokenizer = gguf.tokenizer()?;
        let context = context.min(config.context);
        Ok(Self::new(Decoder::load_with(b, gguf, config, context, &mut |_, _| ())?, Some(tokenizer)))
    }

    /// A decoder that was loaded otherwise, with its tokenizer. Without one, prompts are ids, and generated tokens have no text and do
    /// not end it.
    pub fn new(decoder: Decoder<T, B>, tokenizer: Option<Tokenizer>) -> Self {
        TextModel { decoder, tokenizer, records: true }
    }

    /// Whether steps that repeat are recorded and replayed ([`Replay`](ops_core::Replay)), on a backend that can, unless the model is divided.
    /// Default: yes. A [`Timed`](ops_core::combine::Timed) backend counts the calls of a step only if it is not replayed.
    pub fn record_steps(mut self, records: bool) -> Self {
        self.records = records;
        self
    }

    /// The decoder, for its logits.
    pub fn decoder(&self) -> &Decoder<T, B> {
        &self.decoder
    }

    /// The tokenizer, if there is one.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// Continues a prompt: an iterator over the generated tokens, each with the text that it completes.
    ///
    /// Nothing is computed before the first call of `next`, which reads the prompt.
    ///
    /// # Errors
    /// [`Error::Prompt`] and [`Error::PromptId`] for prompts that the model cannot read, [`Error::NoTokenizer`], [`Error::Option`];
    /// [`Error::File`] if the text cannot be encoded; those of the backend.
    pub fn generate<'m, 'p>(
        &'m self,
        b: &'m B,
        prompt: impl Into<Prompt<'p>>,
        options: GenerateOptions,
    ) -> Result<Generation<'m, T, B>> {
        Generation::new(self, b, self.tokens(prompt)?, options)
    }

    /// Starts a batch without texts, with memory for the keys and values of all of them.
    ///
    /// # Errors
    /// [`Error::Option`] for a size of 0; those of the backend.
    pub fn batch<'m>(&'m self, b: &'m B, options: BatchOptions) -> Result<Batch<'m, T, B>> {
        Batch::new(self, b, options)
    }

    /// The tokens of a prompt, checked: as many as fit the context, and each known to the model.
    ///
    /// # Errors
    /// [`Error::Prompt`], [`Error::PromptId`], [`Error::NoTokenizer`]; [`Error::File`] if the text cannot be encoded.
    pub fn tokens<'p>(&self, prompt: impl Into<Prompt<'p>>) -> Result<Vec<u32>> {
        self.prompt_ids(prompt.into(), self.decoder.context())
    }

    /// [`tokens`](Self::tokens), of which there may be `max`.
    fn prompt_ids(&self, prompt: Prompt<'_>, max: usize) -> Result<Vec<u32>> {
        let ids = match prompt {
            Prompt::Text(text) => self.tokenizer.as_ref().ok_or(Error::NoTokenizer)?.encode(text)?,
            Prompt::Ids(ids) => ids.to_vec(),
        };
        if ids.is_empty() || ids.len() > max {
            return Err(Error::Prompt { got: ids.len(), max });
        }
        let vocabulary = self.decoder.vocabulary();
        match ids.iter().find(|id| **id as usize >= vocabulary) {
            Some(id) => Err(Error::PromptId { id: *id, vocabulary }),
            None => Ok(ids),
        }
    }
}
