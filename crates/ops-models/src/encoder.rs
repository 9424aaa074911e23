//! Encoders: models that read a whole text at once and turn it into one vector.
use crate::Result;
use crate::decoder::feed_forward::Dense;
use crate::decoder::{Linear, Norm};
use crate::folder::origin;
use batch::Batch;
use ops_core::model::{Transformer, Weight};
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, Shape, TensorOf, View};
use ops_gguf::Gguf;

mod batch;
mod config;
mod load;

pub use batch::{batches, truncate};
pub(crate) use config::{ACTIVATIONS, key};
pub use config::{EncoderConfig, Pooling};

/// One layer: attention and feed-forward, each added to its input and normed.
struct Layer<B: Backend> {
    /// Query, key and value in one matrix.
    query_key_value: Linear<B>,
    output: Linear<B>,
    attention_norm: Norm<B>,
    feed: Dense<B>,
    feed_norm: Norm<B>,
}

/// A BERT-style encoder in a backend's memory: embeddings of word, position and token type, then layers in
/// which every token of a text sees every other. Its matrices are packed for the backend. Devlin et al.,
/// "BERT", 2018; Reimers and Gurevych, "Sentence-BERT", 2019.
///
/// All tokens have type 0, as in a single text.
///
/// ```no_run
/// use ops_models::Encoder;
///
/// let (cpu, model) = (ops_cpu::Cpu::new(), ops_models::open("all-MiniLM-L6-v2")?);
/// let encoder = Encoder::<f32, _>::load(&cpu, &model)?;
/// let embeddings = encoder.embed(&cpu, &[&[101, 7592, 102], &[101, 2088, 2651, 102]])?;
/// assert_eq!(embeddings[0].len(), encoder.config().dim);
/// # Ok::<(), ops_models::Error>(())
/// ```
pub struct Encoder<T: Float, B: Backend> {
    config: EncoderConfig,
    /// Not packed, because it is used for lookups.
    words: Weight<B::Space>,
    /// Added to the word at each position, `[max_tokens, dim]`: the embeddings of the position and of token
    /// type 0.
    positions: TensorOf<B, T>,
    norm: Norm<B>,
    layers: Vec<Layer<B>>,
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
        let hidden = self.hidden(b, &batch)?;
        let embeddings = self.pool(b, &batch, hidden)?.to_vec(b)?;
        Ok(embeddings.chunks_exact(self.config.dim).map(<[f32]>::to_vec).collect())
    }

    /// The output of the last layer, `[tokens, dim]`.
    fn hidden(&self, b: &B, batch: &Batch<B>) -> Result<TensorOf<B, T>> {
        let words: TensorOf<B, T> = b.embedding(&self.words, &batch.ids)?;
        let positions = b.index_select(&self.positions, &batch.places, IndexSelect::axis(0))?;
        let mut x = self.norm.apply(b, b.add(&words, &positions)?.as_ref())?;
        for layer in &self.layers {
            let attended = self.attend(b, layer, batch, &x)?;
            let (h, _) = layer.attention_norm.after_adding(b, &attended, &x)?;
            let fed = layer.feed.apply(b, self.config.activation, h.as_ref())?;
            (x, _) = layer.feed_norm.after_adding(b, &fed, &h)?;
        }
        Ok(x)
    }

    /// Attention of every token to all tokens of its own text.
    fn attend(
        &self,
        b: &B,
        layer: &Layer<B>,
        batch: &Batch<B>,
        x: &TensorOf<B, T>,
    ) -> Result<TensorOf<B, T>> {
        let EncoderConfig { dim, heads, .. } = self.config;
        let all = layer.query_key_value.apply(b, x.as_ref())?;
        let mut o = b.empty(Shape::new(x.dims())?)?;
        let (extras, op) = (AttentionExtras::new(), Attention::full());
        if let Some(len) = batch.common_length {
            let by_head = |heads: usize| [batch.count, len, heads, dim / self.config.heads];
            // The heads of query, key and value are interleaved; views [texts, heads, tokens, features] need no copy.
            let part = |i: usize| {
                let all = all.as_ref().reshape(&by_head(3 * heads))?.transpose(1, 2)?;
                all.narrow(1, i * heads, heads)
            };
            let rows = o.as_mut().reshape(&by_head(heads))?.transpose(1, 2)?;
            b.attention_with_into(part(0)?, part(1)?, part(2)?, extras, rows, op)?;
        } else {
            let by_head = |heads: usize| [x.dims()[0], heads, dim / self.config.heads];
            let part = |i: usize| all.as_ref().reshape(&by_head(3 * heads))?.narrow(1, i * heads, heads);
            let (rows, starts) = (o.as_mut().reshape(&by_head(heads))?, (&batch.starts, &batch.starts));
            b.attention_varlen_into(part(0)?, part(1)?, part(2)?, starts, extras, rows, op)?;
        }
        layer.output.apply(b, o.as_ref())
    }

    /// One vector for each text, `[texts, dim]`.
    fn pool(&self, b: &B, batch: &Batch<B>, hidden: TensorOf<B, T>) -> Result<TensorOf<B, f32>> {
        match self.config.pooling {
            // A query of zeros scores all tokens of its text the same, so it gets their mean.
            Pooling::Mean => {
                let EncoderConfig { dim, heads, .. } = self.config;
                let by_head = |rows: usize| [rows, heads, dim / heads];
                let (tokens, query) = (hidden.dims()[0], b.zeros::<T>(&by_head(batch.count))?);
                let all = hidden.as_ref().reshape(&by_head(tokens))?;
                let (starts, extras) = ((&batch.numbers, &batch.starts), AttentionExtras::new());
                let mean = b.attention_varlen(&query, all, all, starts, extras, Attention::full())?;
                self.finish(b, mean.as_ref().reshape(&[batch.count, dim])?)
            }
            Pooling::First => {
                let firsts = batch.starts.as_ref().narrow(0, 0, batch.count)?;
                let first: TensorOf<B, T> = b.index_select(&hidden, firsts, IndexSelect::axis(0))?;
                self.finish(b, first.as_ref())
            }
        }
    }

    fn finish(&self, b: &B, pooled: Ref<'_, B, T>) -> Result<TensorOf<B, f32>> {
        if !self.config.normalize {
            return Ok(b.cast(pooled.any())?);
        }
        // PyTorch clamps the length to this value before it divides; this is the square.
        let normalized: TensorOf<B, T> = b.l2_norm(pooled, L2Norm::eps(1e-24))?;
        Ok(b.cast(&normalized)?)
    }
}
