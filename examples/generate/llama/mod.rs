//! A decoder of the Llama architecture, written once for every backend and float type.
use ops_gguf::Gguf;
use rocm_ops::model::{KvCache, QuantTransformer, Weight};
use rocm_ops::ops::*;
use rocm_ops::{Backend, Float, Ref, Shape, Space, Tensor, TensorOf, View};
use std::error::Error;

mod config;
mod load;

pub(crate) use config::Config;

/// Errors of files, of ops, and of this program's own.
pub(crate) type Result<T> = core::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The weights of one layer.
struct Layer<S: Space> {
    attn_norm: Tensor<S, f32>,
    q: Weight<S>,
    k: Weight<S>,
    v: Weight<S>,
    o: Weight<S>,
    ffn_norm: Tensor<S, f32>,
    gate: Weight<S>,
    up: Weight<S>,
    down: Weight<S>,
}

/// The model: its weights as the file has them, in a backend's memory.
pub(crate) struct Llama<S: Space> {
    /// What the file says of the model.
    pub(crate) config: Config,
    embedding: Weight<S>,
    layers: Vec<Layer<S>>,
    output_norm: Tensor<S, f32>,
    /// Absent where the embedding serves for both ends.
    output: Option<Weight<S>>,
    cos: Tensor<S, f32>,
    sin: Tensor<S, f32>,
}

/// What the model remembers of a text.
pub(crate) struct State<S: Space, T: Float> {
    caches: Vec<KvCache<S, T>>,
}

impl<S: Space, T: Float> State<S, T> {
    /// Tokens seen so far.
    pub(crate) fn len(&self) -> usize {
        self.caches.first().map_or(0, KvCache::len)
    }
}

impl<S: Space> Llama<S> {
    /// The model in `gguf`, for texts of up to `context` tokens.
    ///
    /// Weights are adopted where the backend can use the file's memory in place.
    pub(crate) fn load<B: Backend<Space = S>>(backend: &B, gguf: &Gguf, context: usize) -> Result<Self> {
        load::load(backend, gguf, context)
    }

    /// An empty memory for `capacity` tokens.
    pub(crate) fn state<T: Float, B: Backend<Space = S>>(
        &self,
        backend: &B,
        capacity: usize,
    ) -> Result<State<S, T>> {
        let dims = [1, self.config.kv_heads, capacity, self.config.head_dim];
        let caches =
            (0..self.layers.len()).map(|_| Ok(KvCache::new(backend, dims)?)).collect::<Result<_>>()?;
        Ok(State { caches })
    }

    /// Reads `tokens` after what `state` holds and answers the logits of the token to come.
    pub(crate) fn forward<T: Float, B: QuantTransformer<T> + Backend<Space = S>>(
        &self,
        b: &B,
        state: &mut State<S, T>,
        tokens: &[u32],
    ) -> Result<Vec<f32>> {
        let ids = b.tensor(&[tokens.len()], tokens)?;
        let mut x: TensorOf<B, T> = self.embedding.rows(b, ids.as_ref())?;
        let mut h = match self.layers.first() {
            Some(first) => b.rms_norm(x.as_ref(), first.attn_norm.as_ref(), self.rms_norm())?,
            None => b.contiguous(x.as_ref())?,
        };
        for (i, (layer, cache)) in self.layers.iter().zip(&mut state.caches).enumerate() {
            let a = self.attention(b, layer, cache, h.as_ref())?;
            let (h2, x2) =
                b.add_rms_norm(a.as_ref(), x.as_ref(), layer.ffn_norm.as_ref(), self.add_rms_norm())?;
            let f = self.feed_forward(b, layer, h2.as_ref())?;
            // The norm after a layer is the next layer's first, or the model's last.
            let norm = self.layers.get(i + 1).map_or(&self.output_norm, |next| &next.attn_norm);
            (h, x) = b.add_rms_norm(f.as_ref(), x2.as_ref(), norm.as_ref(), self.add_rms_norm())?;
        }
        let last = h.as_ref().narrow(0, tokens.len() - 1, 1)?;
        let logits: TensorOf<B, T> = self.output.as_ref().unwrap_or(&self.embedding).linear(b, last)?;
        let logits: TensorOf<B, f32> = b.cast(logits.as_ref())?;
        Ok(logits.as_ref().to_vec(b)?)
    }

    /// Attention over everything seen so far, `h[t, dim]`.
    fn attention<T: Float, B: QuantTransformer<T> + Backend<Space = S>>(
        &self,
        b: &B,
        layer: &Layer<S>,
        cache: &mut KvCache<S, T>,
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        let Config { heads, kv_heads, head_dim, rope_dim, .. } = self.config;
        let (t, start) = (h.dims()[0], cache.len());
        // [t, heads · d] seen as [1, heads, t, d]: views, no copies.
        let by_head = |heads: usize| [1, t, heads, head_dim];

        let mut q: TensorOf<B, T> = layer.q.linear(b, h)?;
        let mut k: TensorOf<B, T> = layer.k.linear(b, h)?;
        let v: TensorOf<B, T> = layer.v.linear(b, h)?;
        for (x, heads) in [(&mut q, heads), (&mut k, kv_heads)] {
            let x = x.as_mut().reshape(&by_head(heads))?.transpose(1, 2)?.narrow(-1, 0, rope_dim)?;
            let rope = Rope::new(RopeForm::Interleaved).start(start);
            b.rope_inplace(x, self.cos.as_ref(), self.sin.as_ref(), rope)?;
        }
        let k = k.as_ref().reshape(&by_head(kv_heads))?.transpose(1, 2)?;
        let v = v.as_ref().reshape(&by_head(kv_heads))?.transpose(1, 2)?;
        cache.append(b, k, v)?;

        let q = q.as_ref().reshape(&by_head(heads))?.transpose(1, 2)?;
        let mut o = b.empty(Shape::new(&[t, heads * head_dim])?)?;
        let o_by_head = o.as_mut().reshape(&by_head(heads))?.transpose(1, 2)?;
        b.attention_into(q, cache.keys()?, cache.values()?, o_by_head, Attention::<T>::causal())?;
        Ok(layer.o.linear(b, o.as_ref())?)
    }

    fn feed_forward<T: Float, B: QuantTransformer<T> + Backend<Space = S>>(
        &self,
        b: &B,
        layer: &Layer<S>,
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        let gate: TensorOf<B, T> = layer.gate.linear(b, h)?;
        let up: TensorOf<B, T> = layer.up.linear(b, h)?;
        let f = b.swiglu(gate.as_ref(), up.as_ref())?;
        Ok(layer.down.linear(b, f.as_ref())?)
    }

    fn rms_norm<T: Float>(&self) -> RmsNorm<T, f32> {
        RmsNorm::eps(self.config.norm_eps)
    }
    fn add_rms_norm<T: Float>(&self) -> AddRmsNorm<T, f32> {
        AddRmsNorm::eps(self.config.norm_eps)
    }
}
