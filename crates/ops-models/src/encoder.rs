//! Encoders: models that read a whole text at once and turn it into one vector.
use crate::folder::origin;
use crate::pieces::Linear;
use crate::{Decoder, Result};
use batch::Batch;
use ops_core::model::Transformer;
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, TensorOf};
use ops_gguf::Gguf;
use stack::Stack;

mod batch;
pub(crate) mod config;
mod families;
mod load;
mod stack;

pub use batch::{batches, truncate};
pub(crate) use config::{ACTIVATIONS, key};
pub use config::{EncoderConfig, Pooling};
pub(crate) use families::folders;

/// The most matrices that pooled vectors are multiplied by.
pub(crate) const MOST_DENSE: usize = 2;

/// The names of these matrices in files, without their endings.
pub(crate) fn dense_name(i: usize) -> String {
    format!("dense_{}", i + 2)
}

/// An encoder in a backend's memory: layers in which every token of a text sees the others, or a decoder whose file says how the
/// states of its tokens become one vector. Its matrices are packed for the backend. Devlin et al., "BERT", 2018; Reimers and
/// Gurevych, "Sentence-BERT", 2019.
///
/// All tokens have type 0, as in a single text.
///
/// ```no_run
/// use rocm_ops::models::Encoder;
///
/// let (cpu, model) = (rocm_ops::Cpu::new(), rocm_ops::models::open("all-MiniLM-L6-v2")?);
/// let encoder = Encoder::<f32, _>::load(&cpu, &model)?;
/// let embeddings = encoder.embed(&cpu, &[&[101, 7592, 102], &[101, 2088, 2651, 102]])?;
/// assert_eq!(embeddings[0].len(), encoder.config().dim);
/// # Ok::<(), rocm_ops::models::Error>(())
/// ```
pub struct Encoder<T: Float, B: Backend> {
    config: EncoderConfig,
    layers: Layers<T, B>,
    /// Applied to pooled vectors, one after the other.
    dense: Vec<Linear<B>>,
}

/// What gives each token a state.
enum Layers<T: Float, B: Backend> {
    Stack(Box<Stack<T, B>>),
    Decoder(Box<Decoder<T, B>>),
}

impl<T: Float, B: Transformer<T>> Encoder<T, B> {
    /// Loads the encoder in `gguf`, which [`open`](crate::open) creates from a folder.
    ///
    /// # Errors
    /// [`Error::Family`](crate::Error::Family), [`Error::Key`](crate::Error::Key) and [`Error::Tensor`](crate::Error::Tensor) for
    /// what this crate does not run; errors of the file and of the backend.
    pub fn load(backend: &B, gguf: &Gguf) -> Result<Self> {
        Self::load_with(backend, gguf, &mut |_, _| ())
    }

    /// Like [`load`](Self::load), and calls `progress` with the number of layers loaded and the total.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(backend: &B, gguf: &Gguf, progress: &mut dyn FnMut(usize, usize)) -> Result<Self> {
        origin::in_words_of(gguf, load::load(backend, gguf, progress))
    }

    /// The encoder's configuration.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// The embeddings of texts, given as tokens, in one batch without padding: the result for each text does
    /// not depend on the others. For many texts, make several batches with [`batches`].
    ///
    /// # Errors
    /// [`Error::Text`](crate::Error::Text) for a text without tokens or with more than `max_tokens`, to which [`truncate`] cuts
    /// it; errors of the backend.
    pub fn embed(&self, b: &B, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let batch = Batch::new(b, texts, self.config.max_tokens)?;
        let hidden = match &self.layers {
            Layers::Stack(stack) => stack.hidden(b, &self.config, &batch)?,
            Layers::Decoder(decoder) => states(decoder, b, texts)?,
        };
        let embeddings = self.pool(b, &batch, hidden)?;
        let width = embeddings.dims()[1].max(1);
        Ok(embeddings.to_vec(b)?.chunks_exact(width).map(<[f32]>::to_vec).collect())
    }

    /// One vector for each text, `[texts, dim]`.
    fn pool(&self, b: &B, batch: &Batch<B>, hidden: TensorOf<B, T>) -> Result<TensorOf<B, f32>> {
        match self.config.pooling {
            // A query of zeros scores all tokens of its text the same, so it gets their mean.
            Pooling::Mean => {
                let EncoderConfig { dim, heads, .. } = self.config;
                // Heads of a decoder need not divide its width.
                let heads = if dim % heads == 0 { heads } else { 1 };
                let by_head = |rows: usize| [rows, heads, dim / heads];
                let (tokens, query) = (hidden.dims()[0], b.zeros::<T>(&by_head(batch.count))?);
                let all = hidden.as_ref().reshape(&by_head(tokens))?;
                let starts = Starts { queries: &batch.numbers, keys: &batch.starts };
                let extras = AttentionExtras::new();
                let mean = b.attention_varlen(&query, all, all, starts, extras, Attention::full())?;
                self.finish(b, mean.as_ref().reshape(&[batch.count, dim])?)
            }
            Pooling::First => self.rows(b, &hidden, batch.starts.as_ref().narrow(0, 0, batch.count)?),
            Pooling::Last => self.rows(b, &hidden, batch.lasts.as_ref()),
        }
    }

    /// The vectors of these tokens.
    fn rows(&self, b: &B, hidden: &TensorOf<B, T>, rows: Ref<'_, B, u32>) -> Result<TensorOf<B, f32>> {
        let rows: TensorOf<B, T> = b.index_select(hidden, rows, 0)?;
        self.finish(b, rows.as_ref())
    }

    fn finish(&self, b: &B, pooled: Ref<'_, B, T>) -> Result<TensorOf<B, f32>> {
        let [first, rest @ ..] = &self.dense[..] else { return self.normalized(b, pooled) };
        let mut x = first.apply(b, pooled)?;
        for matrix in rest {
            x = matrix.apply(b, x.as_ref())?;
        }
        self.normalized(b, x.as_ref())
    }

    fn normalized(&self, b: &B, pooled: Ref<'_, B, T>) -> Result<TensorOf<B, f32>> {
        if !self.config.normalize {
            return Ok(b.cast(pooled.any())?);
        }
        // PyTorch clamps the length to this value before it divides; this is the square.
        let normalized: TensorOf<B, T> = b.l2_norm(pooled, 1e-24)?;
        Ok(b.cast(&normalized)?)
    }
}

/// The states of all texts' tokens after a decoder's last norm, `[tokens, dim]`.
fn states<T: Float, B: Transformer<T>>(
    decoder: &Decoder<T, B>,
    b: &B,
    texts: &[&[u32]],
) -> Result<TensorOf<B, T>> {
    let empty = |text: &&[u32]| decoder.state(b, text.len());
    let mut states = texts.iter().map(empty).collect::<Result<Vec<_>>>()?;
    let mut rows: Vec<_> = states.iter_mut().zip(texts).map(|(state, text)| (state, *text)).collect();
    decoder.hidden(b, &mut rows)
}
