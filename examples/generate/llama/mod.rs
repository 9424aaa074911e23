//! A Llama decoder, written once for every backend and float type.
use rocm_ops::gguf::Gguf;
use rocm_ops::model::{KvCache, Transformer, Weight};
use rocm_ops::ops::*;
use rocm_ops::{Backend, Float, Ref, Shape, Space, TensorOf, View};
use std::error::Error;
use std::marker::PhantomData;

mod config;
mod load;

pub(crate) use config::Config;

/// Any error: from files, from ops, or from this program.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;
pub(crate) type Result<T> = core::result::Result<T, Failure>;

/// The weights of one layer.
struct Layer<B: Backend> {
    attn_norm: TensorOf<B, f32>,
    q: Weight<B::Space>,
    k: Weight<B::Space>,
    v: Weight<B::Space>,
    o: Weight<B::Space>,
    ffn_norm: TensorOf<B, f32>,
    gate: Weight<B::Space>,
    up: Weight<B::Space>,
    down: Weight<B::Space>,
}

/// The model in a backend's memory. Its matrices are packed for the backend.
pub(crate) struct Llama<T: Float, B: Backend> {
    /// The model's configuration, from the file.
    pub(crate) config: Config,
    /// The embedding table. Not packed, because rows are looked up in it.
    embedding: Weight<B::Space>,
    layers: Vec<Layer<B>>,
    output_norm: TensorOf<B, f32>,
    /// The output weight; absent if the model uses the embedding for it.
    output: Option<Weight<B::Space>>,
    cos: TensorOf<B, f32>,
    sin: TensorOf<B, f32>,
    computes_in: PhantomData<T>,
}

/// The keys and values of the text so far.
pub(crate) struct State<S: Space, T: Float> {
    caches: Vec<KvCache<S, T>>,
}

impl<S: Space, T: Float> State<S, T> {
    /// Number of tokens so far.
    pub(crate) fn len(&self) -> usize {
        self.caches.first().map_or(0, KvCache::len)
    }
}

impl<T: Float, B: Transformer<T>> Llama<T, B> {
    /// Loads the model in `gguf` for texts of up to `context` tokens.
    ///
    /// Tensors that are not packed are used in place if the backend can compute on the file's memory.
    pub(crate) fn load(backend: &B, gguf: &Gguf, context: usize) -> Result<Self> {
        load::load(backend, gguf, context)
    }

    /// Allocates an empty state for `capacity` tokens.
    pub(crate) fn state(&self, backend: &B, capacity: usize) -> Result<State<B::Space, T>> {
        let dims = [1, self.config.kv_heads, capacity, self.config.head_dim];
        let caches =
            (0..self.layers.len()).map(|_| Ok(KvCache::new(backend, dims)?)).collect::<Result<_>>()?;
        Ok(State { caches })
    }

    /// Appends `tokens` to `state` and returns the logits for the next token.
    pub(crate) fn forward(&self, b: &B, state: &mut State<B::Space, T>, tokens: &[u32]) -> Result<Vec<f32>> {
        let ids = b.tensor(&[tokens.len()], tokens)?;
        let mut x: TensorOf<B, T> = b.embedding(&self.embedding, &ids)?;
        let mut h = match self.layers.first() {
            Some(first) => b.rms_norm(&x, &first.attn_norm, self.rms_norm())?,
            None => b.contiguous(&x)?,
        };
        for (i, (layer, cache)) in self.layers.iter().zip(&mut state.caches).enumerate() {
            let a = self.attention(b, layer, cache, h.as_ref())?;
            let (h2, x2) = b.add_rms_norm(&a, &x, &layer.ffn_norm, self.add_rms_norm())?;
            let f = self.feed_forward(b, layer, h2.as_ref())?;
            // The norm after a layer is that of the next layer, or the model's last one.
            let norm = self.layers.get(i + 1).map_or(&self.output_norm, |next| &next.attn_norm);
            (h, x) = b.add_rms_norm(&f, &x2, norm, self.add_rms_norm())?;
        }
        let last = h.as_ref().narrow(0, tokens.len() - 1, 1)?;
        let logits = match &self.output {
            Some(output) => b.linear(last, output)?,
            None => b.linear(last, &self.embedding)?,
        };
        let logits: TensorOf<B, f32> = b.cast(&logits)?;
        Ok(logits.to_vec(b)?)
    }

    /// Attention of `h[t, dim]` over all tokens so far.
    fn attention(
        &self,
        b: &B,
        layer: &Layer<B>,
        cache: &mut KvCache<B::Space, T>,
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        let Config { heads, kv_heads, head_dim, rope_dim, .. } = self.config;
        let (t, start) = (h.dims()[0], cache.len());
        // Views [t, heads · d] as [1, heads, t, d] without a copy.
        let by_head = |heads: usize| [1, t, heads, head_dim];

        let mut q = b.linear(h, &layer.q)?;
        let mut k = b.linear(h, &layer.k)?;
        let v = b.linear(h, &layer.v)?;
        for (x, heads) in [(&mut q, heads), (&mut k, kv_heads)] {
            let x = x.as_mut().reshape(&by_head(heads))?.transpose(1, 2)?.narrow(-1, 0, rope_dim)?;
            let rope = Rope::new(RopeForm::Interleaved).start(start);
            b.rope_inplace(x, &self.cos, &self.sin, rope)?;
        }
        let k = k.as_ref().reshape(&by_head(kv_heads))?.transpose(1, 2)?;
        let v = v.as_ref().reshape(&by_head(kv_heads))?.transpose(1, 2)?;
        cache.append(b, k, v)?;

        let q = q.as_ref().reshape(&by_head(heads))?.transpose(1, 2)?;
        let mut o = b.empty(Shape::new(&[t, heads * head_dim])?)?;
        let o_by_head = o.as_mut().reshape(&by_head(heads))?.transpose(1, 2)?;
        b.attention_into(q, cache.keys()?, cache.values()?, o_by_head, Attention::<T>::causal())?;
        Ok(b.linear(&o, &layer.o)?)
    }

    fn feed_forward(&self, b: &B, layer: &Layer<B>, h: Ref<'_, B, T>) -> Result<TensorOf<B, T>> {
        let gate = b.linear(h, &layer.gate)?;
        let up = b.linear(h, &layer.up)?;
        let f = b.swiglu(&gate, &up)?;
        Ok(b.linear(&f, &layer.down)?)
    }

    fn rms_norm(&self) -> RmsNorm<T> {
        RmsNorm::eps(self.config.norm_eps)
    }
    fn add_rms_norm(&self) -> AddRmsNorm<T> {
        AddRmsNorm::eps(self.config.norm_eps)
    }
}
