//! The decoder, written once for every family, backend and float type.
use crate::families::deepseek2::Latent;
use crate::families::gemma3n::{Aside, End, Laurel, PerLayer};
use crate::folder::origin;
use crate::pieces::{Linear, Norm, Normed, Output, Summed};
use crate::{Config, Result, Share};
use feed_forward::FeedForward;
use further::Further;
use ops_core::model::{Transformer, Weight};
use ops_core::ops::*;
use ops_core::{Backend, Float, TensorOf};
use ops_gguf::Gguf;
use pages::Past;
use std::marker::PhantomData;

mod attention;
mod continuation;
mod drawn;
mod feed_forward;
mod further;
pub(crate) mod load;
mod logits;
mod pages;
mod recurrent;
mod repeated;
mod state;

pub use continuation::{Continuation, Continues};
pub(crate) use drawn::Draw;
pub use drawn::{Drawn, most_likely};
pub use further::FurtherState;
pub use pages::{PagedRow, PagedStep, Pages};
pub(crate) use repeated::Repeated;
pub use state::{Row, Snapshot, State};

/// The matrices of attention, and the norms of heads.
struct Attend<B: Backend> {
    /// Query, key and value, in this order: one matrix, or several.
    projections: Vec<Linear<B>>,
    /// The gate of the result.
    gate: Option<Linear<B>>,
    output: Summed<B>,
    /// Whether values are the keys before norm and rotation.
    keys_are_values: bool,
    query_norm: Option<TensorOf<B, f32>>,
    key_norm: Option<TensorOf<B, f32>>,
    /// Ones, if values are normed.
    value_norm: Option<TensorOf<B, f32>>,
    /// One score without a value for each head, in the type that the model computes in.
    sinks: Option<Weight<B::Space>>,
}

/// The kinds of attention.
enum AttentionPart<T: Float, B: Backend> {
    Heads(Box<Attend<B>>),
    Latent(Box<Latent<B>>),
    Recurrent(Box<recurrent::Recurrent<T, B>>),
}

/// One layer.
struct Layer<T: Float, B: Backend> {
    attention_norm: Norm<B>,
    attend: AttentionPart<T, B>,
    /// The index of its memory among those of its kind in a [`State`].
    slot: usize,
    post_attention_norm: Option<Norm<B>>,
    laurel: Option<Laurel<B>>,
    /// Absent if attention and feed-forward read the same input.
    feed_norm: Option<Norm<B>>,
    feed: FeedForward<B>,
    post_feed_norm: Option<Norm<B>>,
    end: Option<End<B>>,
}

/// Cosines and sines, `[context, rope_dim / 2]` each.
struct Rotation<B: Backend> {
    cos: TensorOf<B, f32>,
    sin: TensorOf<B, f32>,
}

/// The tables of layers of every kind.
struct Rotations<B: Backend> {
    all: Rotation<B>,
    /// For layers with a window, if they differ.
    windowed: Option<Rotation<B>>,
    /// For layers that do not rotate.
    unrotated: Option<Rotation<B>>,
    /// For queries, if they grow with their position.
    queries: Option<Rotation<B>>,
}

/// A model in a backend's memory. Its matrices are packed for the backend.
pub struct Decoder<T: Float, B: Backend> {
    /// Of the part that this rank computes.
    config: Config,
    whole: Config,
    share: Share<B::Space>,
    /// This rank's own ids, if there are several ranks.
    names: Option<TensorOf<B, u32>>,
    bytes_read: u64,
    /// Not packed, because it is used for lookups.
    embedding: Weight<B::Space>,
    /// The embeddings that a token has for each layer.
    per_layer: Option<PerLayer<B>>,
    layers: Vec<Layer<T, B>>,
    /// The block after these that predicts the token after the next one.
    further: Option<Further<T, B>>,
    output_norm: Norm<B>,
    /// Absent if the embedding table serves as the output matrix.
    output: Option<Linear<B>>,
    rotations: Rotations<B>,
    computes_in: PhantomData<T>,
}

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// Loads the model in `gguf` for texts of up to `context` tokens.
    ///
    /// If the model has longrope ([`RopeScaling::LongRope`](ops_core::model::RopeScaling::LongRope)), its
    /// long list of factors applies to all texts if `context` is beyond the original context, and the short
    /// one otherwise.
    ///
    /// # Errors
    /// [`Error::Family`](crate::Error::Family), [`Error::Key`](crate::Error::Key) and [`Error::Tensor`](crate::Error::Tensor) for
    /// what this crate does not run; errors of the file and of the backend.
    pub fn load(backend: &B, gguf: &Gguf, context: usize) -> Result<Self> {
        Self::load_with(backend, gguf, Config::new(gguf.metadata())?, context, &mut |_, _| ())
    }

    /// Like [`load`](Self::load), with the configuration that the caller has read from `gguf`, and calls `progress` with the number of
    /// layers loaded and the total.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(
        backend: &B,
        gguf: &Gguf,
        config: Config,
        context: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self> {
        Self::load_share(backend, gguf, config, context, Share::whole(), progress)
    }

    /// Like [`load_with`](Self::load_with), but only the part of one rank of a group. Each rank reads only its part of the file, except for
    /// embeddings, norms and routers, and makes all calls of its decoder on a thread of its own, with the same tokens and in the same order
    /// as the others. `backend` is the queue of this rank in the group, or wraps it.
    ///
    /// All ranks draw with the same options, and take the token that rank 0 has drawn. Their states are parts, too. If a call fails after
    /// it has begun, those of the other ranks fail, too, and all later ones.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_share(
        backend: &B,
        gguf: &Gguf,
        config: Config,
        context: usize,
        share: Share<B::Space>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self> {
        origin::in_words_of(gguf, load::generator(backend, gguf, config, context, share, progress))
    }

    /// The model's configuration.
    #[expect(clippy::misnamed_getters, reason = "the field `config` is that of this rank's part")]
    pub fn config(&self) -> &Config {
        &self.whole
    }

    /// Bytes of the file's tensors that were read to load the model, or its part.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Number of tokens in the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.embedding.dims().first().copied().unwrap_or(0)
    }

    /// Maximum number of tokens in a text.
    pub fn context(&self) -> usize {
        self.rotations.all.cos.dims().first().copied().unwrap_or(0)
    }

    /// Allocates an empty state for `capacity` tokens.
    ///
    /// # Errors
    /// [`Error::Capacity`](crate::Error::Capacity) if `capacity` is more than [`context`](Self::context); errors of the backend.
    pub fn state(&self, backend: &B, capacity: usize) -> Result<State<B::Space, T>> {
        let max = self.context();
        if capacity > max {
            return Err(crate::Error::Capacity { got: capacity, max });
        }
        State::new(backend, &self.config, capacity)
    }

    /// Appends `tokens` to `state`, and returns the logits for the token after them.
    ///
    /// # Errors
    /// [`Error::Tokens`](crate::Error::Tokens) if there are none or too many, and those of the backend. The state then has the tokens
    /// that it had. Of a model with recurrent layers, it must be truncated to 0, or the next step is an
    /// [`Error::Rewind`](crate::Error::Rewind).
    pub fn forward(&self, b: &B, state: &mut State<B::Space, T>, tokens: &[u32]) -> Result<Vec<f32>> {
        let h = self.hidden(b, &mut [(state, tokens)])?;
        self.logits(b, h.as_ref().narrow(0, tokens.len() - 1, 1)?)
    }

    /// A step of several texts, each with its own state and tokens: returns the logits for the token after
    /// each.
    ///
    /// The tokens of all texts pass through each matrix together, so that a weight is read only once.
    /// Attention is separate for each text, and the texts may have different lengths.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_batch(&self, b: &B, rows: &mut [Row<'_, B::Space, T>]) -> Result<Vec<Vec<f32>>> {
        if let [(state, tokens)] = rows {
            return Ok(vec![self.forward(b, state, tokens)?]);
        }
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let logits = self.logits(b, self.last_hidden(b, rows)?.as_ref())?;
        Ok(logits.chunks(self.vocabulary()).map(<[f32]>::to_vec).collect())
    }

    /// A step of several texts, as [`forward_batch`](Self::forward_batch): returns the token drawn after
    /// each, with one counter per text. The logits stay on the backend. If a text has NaN among its logits, this is its
    /// [`NanLogit`](crate::NanLogit), at every temperature.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and the errors of [`SamplingMethods::sample`].
    pub fn sample_batch(
        &self,
        b: &B,
        rows: &mut [Row<'_, B::Space, T>],
        counters: &[i64],
        sample: Sample<f32>,
    ) -> Result<Vec<Drawn>> {
        self.next_batch(b, rows, &Draw::alike(sample, counters, rows.len())?)
    }

    /// [`sample_batch`](Self::sample_batch), with each token drawn in its own way.
    pub(crate) fn next_batch(
        &self,
        b: &B,
        rows: &mut [Row<'_, B::Space, T>],
        draws: &[Draw<'_>],
    ) -> Result<Vec<Drawn>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let h = self.last_hidden(b, rows)?;
        let positions: Vec<usize> = rows.iter().map(|(state, _)| state.len() - 1).collect();
        self.drawn(b, &h, draws, &positions)
    }

    /// Like [`forward`](Self::forward), but returns logits after each of the tokens, in rows of
    /// [`vocabulary`](Self::vocabulary).
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_all(&self, b: &B, state: &mut State<B::Space, T>, tokens: &[u32]) -> Result<Vec<f32>> {
        let h = self.hidden(b, &mut [(state, tokens)])?;
        self.logits(b, h.as_ref())
    }

    /// The normed output of the last layer for the last token of each text, `[texts, dim]`.
    fn last_hidden(&self, b: &B, rows: &mut [Row<'_, B::Space, T>]) -> Result<TensorOf<B, T>> {
        let h = self.hidden(b, rows)?;
        self.share.step(|| Self::last_rows(b, h, rows))
    }

    fn last_rows(b: &B, h: TensorOf<B, T>, rows: &[Row<'_, B::Space, T>]) -> Result<TensorOf<B, T>> {
        let mut end = 0;
        let last: Vec<u32> = rows.iter().map(|(_, tokens)| (end += tokens.len(), end as u32 - 1).1).collect();
        if last.len() == h.dims()[0] {
            return Ok(h);
        }
        let last = b.tensor(&[last.len()], &last)?;
        Ok(b.index_select(&h, &last, 0)?)
    }

    /// The normed output of the last layer, `[tokens of all texts, dim]`.
    pub(crate) fn hidden(&self, b: &B, rows: &mut [Row<'_, B::Space, T>]) -> Result<TensorOf<B, T>> {
        rows.iter().try_for_each(|(state, tokens)| state.check(tokens.len()))?;
        rows.iter_mut().for_each(|(state, _)| state.begin());
        let h = self.share.step(|| self.hidden_of_states(b, rows))?;
        rows.iter_mut().for_each(|(state, tokens)| state.finish(tokens.len()));
        Ok(h)
    }

    fn hidden_of_states(&self, b: &B, rows: &mut [Row<'_, B::Space, T>]) -> Result<TensorOf<B, T>> {
        let tokens: Vec<u32> = rows.iter().flat_map(|(_, tokens)| *tokens).copied().collect();
        let ids = b.tensor(&[tokens.len()], &tokens)?;
        let positions = attention::positions(b, rows)?;
        self.through_layers(b, &ids, &mut Past::States(rows, &positions))
    }

    /// The normed output of the last layer for tokens that follow those in `past`, `[tokens, dim]`.
    fn through_layers(
        &self,
        b: &B,
        ids: &TensorOf<B, u32>,
        past: &mut Past<'_, '_, B::Space, T>,
    ) -> Result<TensorOf<B, T>> {
        let x = self.embedded(b, ids)?;
        let begin = |inputs: &PerLayer<B>| inputs.begin(b, ids, x.as_ref());
        let mut aside = self.per_layer.as_ref().map(begin).transpose()?;
        let mut input = self.enter(b, 0, x, aside.as_mut())?;
        for (i, layer) in self.layers.iter().enumerate() {
            // The norm after a layer is the next layer's, or the model's final one.
            input = self.layer(b, (i, layer), past, &input, aside.as_mut(), self.norm_of(i + 1))?;
        }
        input.into_h(b)
    }

    /// The embeddings of tokens, scaled, `[tokens, dim]`.
    fn embedded(&self, b: &B, ids: &TensorOf<B, u32>) -> Result<TensorOf<B, T>> {
        let mut x: TensorOf<B, T> = b.embedding(&self.embedding, ids)?;
        let scale = self.config.embedding_scale / self.config.stream_unit::<T>();
        if scale != 1.0 {
            b.affine_inplace(&mut x, scale, 0.0)?;
        }
        Ok(x)
    }

    /// The norm of what layer `i` reads, or of the last layer's result.
    fn norm_of(&self, i: usize) -> &Norm<B> {
        self.layers.get(i).map_or(&self.output_norm, |layer| &layer.attention_norm)
    }

    /// What layer `i` reads after the stream `x`.
    fn enter(
        &self,
        b: &B,
        i: usize,
        mut x: TensorOf<B, T>,
        aside: Option<&mut Aside<T, B>>,
    ) -> Result<Normed<'_, T, B>> {
        if let (Some(inputs), Some(aside)) = (&self.per_layer, aside) {
            x = inputs.enter(b, self.layers.get(i).and_then(|layer| layer.end.as_ref()), x, aside)?;
        }
        Ok(Normed::new(self.norm_of(i), x))
    }

    fn layer<'n>(
        &'n self,
        b: &B,
        (i, layer): (usize, &Layer<T, B>),
        past: &mut Past<'_, '_, B::Space, T>,
        input: &Normed<'_, T, B>,
        mut aside: Option<&mut Aside<T, B>>,
        next: &'n Norm<B>,
    ) -> Result<Normed<'n, T, B>> {
        let normed = |norm: &Option<Norm<B>>, y: Output<T, B>| -> Result<_> {
            Ok(match (norm, y) {
                (Some(norm), Output::Alone(y)) => Output::Alone(norm.apply(b, y.as_ref())?),
                (_, y) => y,
            })
        };
        // Results that nothing else reads are added to the stream where they are computed.
        let adds = |norm: &Option<Norm<B>>| layer.feed_norm.is_some() && norm.is_none();
        let onto = (adds(&layer.post_attention_norm) && layer.laurel.is_none()).then_some(input.x());
        let a = match &layer.attend {
            AttentionPart::Heads(part) => self.attention(b, i, part, past.keys(layer.slot), input, onto)?,
            AttentionPart::Latent(part) => {
                Output::Alone(self.latent_attention(b, i, part, past.keys(layer.slot), input.h(b)?)?)
            }
            AttentionPart::Recurrent(part) => part.apply(b, &mut past.memories(layer.slot)?, input, onto)?,
        };
        let a = normed(&layer.post_attention_norm, a)?;
        let feed = |input: &Normed<'_, T, B>| {
            let onto = (adds(&layer.post_feed_norm) && layer.end.is_none()).then_some(input.x());
            let f = layer.feed.apply(b, self.config.activation_of(i), input, onto)?;
            normed(&layer.post_feed_norm, f)
        };
        let Some(norm) = &layer.feed_norm else {
            let both = b.add(&a.alone(), &feed(input)?.alone())?;
            return Normed::after(b, next, Output::Alone(both), input.x());
        };
        let middle = match &layer.laurel {
            Some(laurel) => {
                let x = b.add(&a.alone(), input.x())?;
                Normed::new(norm, laurel.apply(b, input.h(b)?, &x)?)
            }
            None => Normed::after(b, norm, a, input.x())?,
        };
        let f = feed(&middle)?;
        let Some(end) = &layer.end else { return Normed::after(b, next, f, middle.x()) };
        let x = end.apply(b, i, b.add(&f.alone(), middle.x())?, aside.as_deref_mut())?;
        self.enter(b, i + 1, x, aside)
    }
}
