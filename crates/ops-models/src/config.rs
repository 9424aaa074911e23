//! The configuration of a model.
use crate::keys::Keys;
use crate::{Error, Result};
use ops_core::model::RopeScaling;
use ops_core::ops::RopeForm;
use ops_core::{DType, Float};

mod experts;
mod layers;
mod share;

pub use experts::Experts;
pub use layers::{HeadShape, QueryGrowth, Recurrent, Window};
pub(crate) use share::{KeyHeads, gcd};

/// Extents, constants and choices of a decoder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The family's name, `general.architecture`.
    pub architecture: String,
    /// Width of the residual stream.
    pub dim: usize,
    /// Number of layers.
    pub layers: usize,
    /// Further layers in the file, which predict more than the next token.
    pub(crate) further_layers: usize,
    /// Whether this program runs such a layer of this family.
    pub(crate) runs_further: bool,
    /// Whether it is loaded.
    pub(crate) loads_further: bool,
    /// Whether a token sees only those before it. Models for which this is false are encoders.
    pub(crate) causal: bool,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Features per head of queries and keys.
    pub head_dim: usize,
    /// Number of last layers that read the keys and values of the last layer of their kind before them.
    pub shared_kv: usize,
    /// Whether values are normed by head, without weights.
    pub(crate) value_norms: bool,
    /// Width of a token's embedding for each layer; `None` if there are none.
    pub per_layer: Option<usize>,
    /// Number of residual streams, if there are several.
    pub(crate) streams: Option<usize>,
    /// Whether the feed-forward block of a layer is a dense one beside experts, each with norms of its own.
    pub(crate) experts_beside: bool,
    /// Whether the residual stream is multiplied by a number after each layer.
    pub(crate) layer_scales: bool,
    /// How attention is compressed, if it is latent.
    pub latent: Option<Latent>,
    /// Layers with linear attention instead of attention.
    pub recurrent: Option<Recurrent>,
    /// Whether the result of attention is multiplied by the sigmoid of a gate. The query matrix then has the
    /// gate next to each head.
    pub gated: bool,
    /// Width of the feed-forward block.
    pub ffn: usize,
    /// The same for each layer, if they differ.
    pub(crate) ffn_by_layer: Option<Vec<usize>>,
    /// Numbers of key heads, if the file gives one for each layer.
    kv_heads_by_layer: Option<Vec<usize>>,
    /// Context that the model was trained for, in tokens.
    pub context: usize,
    /// The kind of all norms except those of heads, which are always root mean square.
    pub norm: NormKind,
    /// The `eps` of every norm.
    pub norm_eps: f64,
    /// How rotated features pair up.
    pub rope: RopeForm,
    /// Rotated features per head; the rest pass through.
    pub rope_dim: usize,
    /// Every layer of this period leaves queries and keys as they are, without rotation.
    pub unrotated: Option<usize>,
    /// How queries grow with their position.
    pub query_growth: Option<QueryGrowth>,
    /// Base of the rotary frequencies.
    pub rope_base: f64,
    /// How positions map to angles. Lists of factors are empty here: they are stored as tensors.
    pub rope_scaling: RopeScaling,
    /// Layers with windowed attention.
    pub window: Option<Window>,
    /// Factor on the embeddings.
    pub embedding_scale: f64,
    /// Factor on the scores; `None` is `1/√head_dim`.
    pub score_scale: Option<f64>,
    /// Bound on the scores.
    pub score_softcap: Option<f64>,
    /// Bound on the logits.
    pub logit_softcap: Option<f64>,
    /// The function of the feed-forward block.
    pub activation: Activation,
    /// That of each layer; empty if it is the same in all.
    pub(crate) activation_by_layer: Vec<Activation>,
    /// Whether attention and feed-forward read the same input, and both are added to it.
    pub parallel: bool,
    /// The mixture of experts, if the feed-forward block is one.
    pub experts: Option<Experts>,
    /// The name of the norm before the feed-forward block, in files.
    pub(crate) feed_norm: &'static str,
    /// Whether the results of attention and of the feed-forward block are normed before they are added to the residual stream.
    pub(crate) post_norms: bool,
}

/// Attention in which the keys and values of all heads are a single compressed row per token. A head's query
/// is mapped into the space of these rows, and its result out of it. DeepSeek-AI, "DeepSeek-V2", 2024.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Latent {
    /// Features of a compressed row that are not rotated; the rotated ones follow them. They also serve as
    /// values.
    pub rank: usize,
    /// Width that queries are compressed to; `None` if they are not.
    pub query_rank: Option<usize>,
    /// Features of a head's query that are not rotated.
    pub nope: usize,
    /// Features of a head's result.
    pub value_dim: usize,
}

/// A kind of norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NormKind {
    /// Root mean square.
    Rms,
    /// Mean and variance, with a bias.
    Layer,
}

/// A function of a feed-forward block.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Activation {
    /// `silu(gate) · up`
    Swiglu,
    /// `g · sigmoid(alpha · g) · (u + 1)`, with gate and up bounded by `limit`.
    SwigluClamped {
        /// Multiplies the gate inside the sigmoid.
        alpha: f64,
        /// The largest gate, and the largest magnitude of `up`.
        limit: f64,
    },
    /// `gelu(gate) · up`, in the tanh form.
    Geglu,
    /// `gelu(g) · up`, in the tanh form, with `g = max(gate − mean − deviations · deviation, 0)`: mean and standard deviation are
    /// those of the row's gates.
    GegluSparse {
        /// How many standard deviations above the mean a gate must be to count.
        deviations: f64,
    },
    /// `gelu(gate) · up`, in the form of the error function.
    GegluErf,
    /// `gelu(up)`, in the tanh form; there is no gate.
    Gelu,
    /// `gelu(up)`, in the form of the error function; there is no gate.
    GeluErf,
    /// `max(up, 0)`; there is no gate.
    Relu,
}

/// Keys that affect results and that a family does not support unless it says so.
const REFUSED: [&str; 7] = [
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "logit_scale",
    "residual_scale",
    "embedding_scale",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_ext_factor",
];

/// A key that only some families have, and whether this configuration ignores it.
type FamilyKey = (&'static str, fn(&Config) -> bool);

/// Keys that only some families have.
const BY_FAMILY: [FamilyKey; 16] = [
    ("nextn_predict_layers", |config| config.further_layers == 0),
    ("altup.num_inputs", |config| config.streams.is_none()),
    ("activation_sparsity_scale", |config| config.activation_by_layer.is_empty()),
    ("embedding_length_per_layer_input", |config| config.per_layer.is_none()),
    ("attn_logit_softcapping", |config| config.score_softcap.is_none()),
    ("final_logit_softcapping", |config| config.logit_softcap.is_none()),
    ("expert_count", |config| config.experts.is_none()),
    ("expert_shared_count", |config| config.experts.is_none()),
    ("expert_shared_feed_forward_length", |config| config.experts.is_none()),
    ("expert_group_count", |config| config.experts.is_none()),
    ("leading_dense_block_count", |config| config.experts.is_none()),
    ("attention.q_lora_rank", |config| config.latent.is_none()),
    ("attention.kv_lora_rank", |config| config.latent.is_none()),
    ("attention.temperature_scale", |config| config.query_growth.is_none()),
    ("rope.scaling.yarn_log_multiplier", |config| config.latent.is_none() && config.query_growth.is_none()),
    ("ssm.inner_size", |config| config.recurrent.is_none()),
];

impl Config {
    /// What all families have in common.
    pub(crate) fn common(keys: &Keys<'_>) -> Result<Self> {
        let (dim, heads) = (keys.count("embedding_length")?, keys.count("attention.head_count")?);
        let head_dim = keys.count_or("attention.key_length", dim / heads)?;
        let layers = keys.count("block_count")?;
        let kv_heads_by_layer = keys.by_layer("attention.head_count_kv", layers)?;
        let kv_heads = match &kv_heads_by_layer {
            Some(all) => all.first().copied().unwrap_or(heads),
            None => keys.count_or("attention.head_count_kv", heads)?,
        };
        let ffn_by_layer = keys.by_layer("feed_forward_length", layers)?;
        let ffn = match &ffn_by_layer {
            Some(all) => all.first().copied().unwrap_or(dim),
            None => keys.count_or("feed_forward_length", dim)?,
        };
        Ok(Config {
            architecture: keys.architecture().to_owned(),
            dim,
            layers,
            further_layers: 0,
            runs_further: false,
            loads_further: false,
            causal: true,
            heads,
            kv_heads,
            kv_heads_by_layer,
            head_dim,
            shared_kv: 0,
            value_norms: false,
            per_layer: None,
            streams: None,
            experts_beside: false,
            layer_scales: false,
            latent: None,
            recurrent: None,
            gated: false,
            ffn,
            ffn_by_layer,
            context: keys.count("context_length")?,
            norm: NormKind::Rms,
            norm_eps: 0.0,
            rope: RopeForm::Half,
            rope_dim: keys.count_or("rope.dimension_count", head_dim)?,
            unrotated: None,
            query_growth: None,
            rope_base: keys.float("rope.freq_base")?.unwrap_or(10_000.0),
            rope_scaling: keys.rope_scaling()?,
            window: all_layers_windowed(keys)?,
            embedding_scale: 1.0,
            score_scale: keys.float("attention.scale")?.filter(|scale| *scale != 0.0),
            score_softcap: None,
            logit_softcap: None,
            activation: Activation::Swiglu,
            activation_by_layer: Vec::new(),
            parallel: false,
            experts: None,
            feed_norm: "ffn_norm",
            post_norms: false,
        })
    }

    /// Whether [`Decoder::load_with`](crate::Decoder::load_with) also loads the block after the last layer that predicts the token
    /// after the next one, for [`Decoder::further`](crate::Decoder::further). Otherwise it is passed over.
    #[must_use]
    pub fn with_further(mut self, load: bool) -> Self {
        self.loads_further = load;
        self
    }

    pub(crate) fn check(&self, keys: &Keys<'_>) -> Result<()> {
        let Config { heads, kv_heads, head_dim, rope_dim, .. } = *self;
        if heads % kv_heads != 0 {
            let wanted = format!("a divisor of {heads}, the number of query heads");
            return Err(keys.wrong("attention.head_count_kv", kv_heads, wanted));
        }
        let (value_dim, wanted) = (
            keys.count_or("attention.value_length", head_dim)?,
            self.latent.map_or(head_dim, |latent| latent.rank),
        );
        if value_dim != wanted {
            let why = if self.latent.is_some() { "the rank of latent attention" } else { "as for keys" };
            return Err(keys.wrong("attention.value_length", value_dim, format!("{wanted}, {why}")));
        }
        if rope_dim % 2 != 0 || rope_dim > head_dim {
            let wanted = format!("an even number up to {head_dim}");
            return Err(keys.wrong("rope.dimension_count", rope_dim, wanted));
        }
        if self.query_growth.is_some() && rope_dim != head_dim {
            let wanted = format!("{head_dim}: the factor on queries is one on their rotation");
            return Err(keys.wrong("rope.dimension_count", rope_dim, wanted));
        }
        let said = self.kv_heads_by_layer.iter().flatten().enumerate();
        if let Some((layer, got)) = said.clone().find(|(i, n)| self.heads_of(*i).kv_heads != **n) {
            let wanted = format!("{}, as in other layers of its kind", self.heads_of(layer).kv_heads);
            return Err(keys.wrong("attention.head_count_kv", format!("{got} in layer {layer}"), wanted));
        }
        self.experts.map_or(Ok(()), |experts| experts.check(keys))?;
        REFUSED.iter().try_for_each(|key| keys.refuse(key))?;
        BY_FAMILY.iter().filter(|(_, without)| without(self)).try_for_each(|(key, _)| keys.refuse(key))
    }

    /// Whether the attention of this layer has a window.
    pub fn is_windowed(&self, layer: usize) -> bool {
        self.window.as_ref().is_some_and(|window| match &window.layers {
            Some(layers) => layers.get(layer) == Some(&true),
            None => !(layer + 1).is_multiple_of(window.period),
        })
    }

    /// The extents of this layer's heads.
    pub fn heads_of(&self, layer: usize) -> HeadShape {
        let Config { kv_heads, head_dim, rope_dim, .. } = *self;
        let windowed = self.window.as_ref().filter(|_| self.is_windowed(layer));
        windowed.and_then(|window| window.heads).unwrap_or(HeadShape { kv_heads, head_dim, rope_dim })
    }

    /// The number of key heads that the file gives for this layer alone.
    pub(crate) fn kv_heads_in(&self, layer: Option<usize>) -> Option<usize> {
        self.kv_heads_by_layer.as_ref()?.get(layer?).copied()
    }

    /// The layer whose keys and values this layer reads: its own if it comes after the last one.
    pub(crate) fn keys_of(&self, layer: usize) -> usize {
        let own = self.layers.saturating_sub(self.shared_kv);
        if layer < own || layer >= self.layers {
            return layer;
        }
        (0..own).rev().find(|i| self.is_windowed(*i) == self.is_windowed(layer)).unwrap_or(layer)
    }

    /// Whether this layer has keys and values of its own.
    pub(crate) fn has_own_keys(&self, layer: usize) -> bool {
        self.keys_of(layer) == layer
    }

    /// The index of this layer's memory among those of its kind in a [`State`](crate::State).
    pub(crate) fn slot(&self, layer: usize) -> usize {
        let from = self.keys_of(layer);
        let alike = |i: &usize| self.is_recurrent(*i) == self.is_recurrent(from) && self.has_own_keys(*i);
        (0..from).filter(alike).count()
    }

    /// Width of this layer's feed-forward block.
    pub(crate) fn ffn_of(&self, layer: usize) -> usize {
        self.ffn_by_layer.as_ref().and_then(|all| all.get(layer)).copied().unwrap_or(self.ffn)
    }

    /// The function of this layer's feed-forward block.
    pub(crate) fn activation_of(&self, layer: usize) -> Activation {
        self.activation_by_layer.get(layer).copied().unwrap_or(self.activation)
    }

    /// Whether this layer rotates queries and keys.
    pub fn is_rotated(&self, layer: usize) -> bool {
        self.unrotated.is_none_or(|period| !(layer + 1).is_multiple_of(period))
    }

    /// The unit in which a decoder that computes in `T` keeps the residual stream.
    ///
    /// The stream of real Gemma models exceeds 65504, the largest f16: that of the 270M model reaches 104,000. All that is added to
    /// it has passed a norm or is an embedding, and all that reads it is a norm, so a power of two as its unit costs nothing and
    /// changes no result. Numbers below 2⁻⁶, which lose bits as subnormal f16, are small beside the rest of a row.
    pub(crate) fn stream_unit<T: Float>(&self) -> f64 {
        if self.post_norms && T::DTYPE == DType::F16 { 256.0 } else { 1.0 }
    }

    /// Whether this layer has linear attention.
    pub fn is_recurrent(&self, layer: usize) -> bool {
        self.recurrent.as_ref().is_some_and(|recurrent| recurrent.layers.get(layer) == Some(&true))
    }

    /// Features of a cached value of this layer.
    pub(crate) fn value_dim(&self, layer: usize) -> usize {
        self.latent.map_or(self.heads_of(layer).head_dim, |latent| latent.rank)
    }

    /// The total widths of this layer's query heads and of its key heads.
    pub(crate) fn widths(&self, layer: usize) -> Result<(usize, usize)> {
        let HeadShape { kv_heads, head_dim, .. } = self.heads_of(layer);
        let width = |heads: usize| {
            heads.checked_mul(head_dim).ok_or_else(|| Error::Key {
                key: format!("{}.attention.key_length", self.architecture),
                got: head_dim.to_string(),
                wanted: format!("a width that {heads} heads can have"),
            })
        };
        Ok((width(self.heads)?, width(kv_heads)?))
    }
}

/// A window applies to all layers unless the family says otherwise, as in Mistral.
fn all_layers_windowed(keys: &Keys<'_>) -> Result<Option<Window>> {
    let size = keys.find::<u32>("attention.sliding_window")?.filter(|size| *size > 0);
    Ok(size.map(|size| Window::but_every(usize::MAX, size as usize)))
}
