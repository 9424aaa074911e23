//! The configuration of a model.
use crate::keys::Keys;
use crate::{Error, Result};
use ops_core::model::RopeScaling;
use ops_core::ops::RopeForm;
use ops_core::{DType, Float};

mod experts;

pub use experts::Experts;

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
    /// Further layers in the file that are not used, because they predict more than the next token.
    pub(crate) passed_over: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Features per head of queries and keys.
    pub head_dim: usize,
    /// How attention is compressed, if it is latent.
    pub latent: Option<Latent>,
    /// Layers with linear attention instead of attention.
    pub recurrent: Option<Recurrent>,
    /// Whether the result of attention is multiplied by the sigmoid of a gate. The query matrix then has the
    /// gate next to each head.
    pub gated: bool,
    /// Width of the feed-forward block.
    pub ffn: usize,
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

/// Layers that keep a state of fixed size instead of keys and values: a short convolution, then the gated delta rule. Yang, Kautz
/// and Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule", 2024.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recurrent {
    /// Whether each layer is one of these; the others have attention.
    pub layers: Vec<bool>,
    /// Inputs that the convolution sees, including the newest.
    pub window: usize,
    /// Number of heads of queries and keys; divides `value_heads`.
    pub key_heads: usize,
    /// Number of value heads, each with its own state.
    pub value_heads: usize,
    /// Features of a head's query and key.
    pub key_dim: usize,
    /// Features of a head's value.
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
    /// `gelu(up)`, in the tanh form; there is no gate.
    Gelu,
    /// `gelu(up)`, in the form of the error function; there is no gate.
    GeluErf,
    /// `max(up, 0)`; there is no gate.
    Relu,
}

/// Layers with windowed attention.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Window {
    /// Positions that a token sees, including its own.
    pub size: usize,
    /// Every `period`-th layer has no window; `usize::MAX` means that every layer has one.
    pub period: usize,
    /// The base of the rotary frequencies in these layers, which have no scaling; `None` if they rotate like
    /// the others.
    pub rope_base: Option<f64>,
}

impl Recurrent {
    /// Reads the metadata of a model with this many layers, and some after them that are not used.
    pub(crate) fn read(keys: &Keys<'_>, (layers, passed_over): (usize, usize)) -> Result<Self> {
        let layers = match keys.find::<&[bool]>("attention.recurrent_layers")? {
            Some(said) if [layers, layers + passed_over].contains(&said.len()) => said[..layers].to_vec(),
            Some(said) => {
                let wanted = format!("one value for each of the {layers} layers");
                return Err(keys.wrong(
                    "attention.recurrent_layers",
                    format!("{} values", said.len()),
                    wanted,
                ));
            }
            None => {
                let period = keys.count_or("full_attention_interval", 4)?;
                (1..=layers).map(|layer| !layer.is_multiple_of(period)).collect()
            }
        };
        let (key_heads, value_heads) = (keys.count("ssm.group_count")?, keys.count("ssm.time_step_rank")?);
        if !value_heads.is_multiple_of(key_heads) {
            let wanted =
                format!("a divisor of {value_heads}, the number of value heads (ssm.time_step_rank)");
            return Err(keys.wrong("ssm.group_count", key_heads, wanted));
        }
        let values = keys.count("ssm.inner_size")?;
        if !values.is_multiple_of(value_heads) {
            return Err(keys.wrong(
                "ssm.inner_size",
                values,
                format!("a multiple of {value_heads}, the number of heads"),
            ));
        }
        let key_dim = keys.count("ssm.state_size")?;
        if key_heads.checked_mul(key_dim).is_none_or(|width| width > u32::MAX as usize) {
            return Err(keys.wrong(
                "ssm.state_size",
                key_dim,
                format!("a multiple of {key_heads}, the number of heads"),
            ));
        }
        Ok(Recurrent {
            layers,
            window: keys.count("ssm.conv_kernel")?,
            key_heads,
            value_heads,
            key_dim,
            value_dim: values / value_heads,
        })
    }
}

/// Keys that affect results and that a family does not support unless it says so.
const REFUSED: [&str; 8] = [
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.temperature_scale",
    "logit_scale",
    "residual_scale",
    "embedding_scale",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_ext_factor",
];

/// A key that only some families have, and whether this configuration ignores it.
type FamilyKey = (&'static str, fn(&Config) -> bool);

/// Keys that only some families have.
const BY_FAMILY: [FamilyKey; 12] = [
    ("nextn_predict_layers", |config| config.passed_over == 0),
    ("attn_logit_softcapping", |config| config.score_softcap.is_none()),
    ("final_logit_softcapping", |config| config.logit_softcap.is_none()),
    ("expert_count", |config| config.experts.is_none()),
    ("expert_shared_count", |config| config.experts.is_none()),
    ("expert_shared_feed_forward_length", |config| config.experts.is_none()),
    ("expert_group_count", |config| config.experts.is_none()),
    ("leading_dense_block_count", |config| config.experts.is_none()),
    ("attention.q_lora_rank", |config| config.latent.is_none()),
    ("attention.kv_lora_rank", |config| config.latent.is_none()),
    ("rope.scaling.yarn_log_multiplier", |config| config.latent.is_none()),
    ("ssm.inner_size", |config| config.recurrent.is_none()),
];

impl Config {
    /// What all families have in common.
    pub(crate) fn common(keys: &Keys<'_>) -> Result<Self> {
        let (dim, heads) = (keys.count("embedding_length")?, keys.count("attention.head_count")?);
        let head_dim = keys.count_or("attention.key_length", dim / heads)?;
        Ok(Config {
            architecture: keys.architecture().to_owned(),
            dim,
            layers: keys.count("block_count")?,
            passed_over: 0,
            heads,
            kv_heads: keys.count_or("attention.head_count_kv", heads)?,
            head_dim,
            latent: None,
            recurrent: None,
            gated: false,
            ffn: keys.count_or("feed_forward_length", dim)?,
            context: keys.count("context_length")?,
            norm: NormKind::Rms,
            norm_eps: 0.0,
            rope: RopeForm::Half,
            rope_dim: keys.count_or("rope.dimension_count", head_dim)?,
            rope_base: keys.float("rope.freq_base")?.unwrap_or(10_000.0),
            rope_scaling: keys.rope_scaling()?,
            window: all_layers_windowed(keys)?,
            embedding_scale: 1.0,
            score_scale: keys.float("attention.scale")?.filter(|scale| *scale != 0.0),
            score_softcap: None,
            logit_softcap: None,
            activation: Activation::Swiglu,
            parallel: false,
            experts: None,
            feed_norm: "ffn_norm",
            post_norms: false,
        })
    }

    pub(crate) fn check(&self, keys: &Keys<'_>) -> Result<()> {
        let Config { heads, kv_heads, head_dim, rope_dim, .. } = *self;
        if heads % kv_heads != 0 {
            let wanted = format!("a divisor of {heads}, the number of query heads");
            return Err(keys.wrong("attention.head_count_kv", kv_heads, wanted));
        }
        let (value_dim, wanted) = (keys.count_or("attention.value_length", head_dim)?, self.value_dim());
        if value_dim != wanted {
            let why = if self.latent.is_some() { "the rank of latent attention" } else { "as for keys" };
            return Err(keys.wrong("attention.value_length", value_dim, format!("{wanted}, {why}")));
        }
        if rope_dim % 2 != 0 || rope_dim > head_dim {
            let wanted = format!("an even number up to {head_dim}");
            return Err(keys.wrong("rope.dimension_count", rope_dim, wanted));
        }
        self.experts.map_or(Ok(()), |experts| experts.check(keys))?;
        REFUSED.iter().try_for_each(|key| keys.refuse(key))?;
        BY_FAMILY.iter().filter(|(_, without)| without(self)).try_for_each(|(key, _)| keys.refuse(key))
    }

    /// Whether the attention of this layer has a window.
    pub fn is_windowed(&self, layer: usize) -> bool {
        self.window.as_ref().is_some_and(|window| !(layer + 1).is_multiple_of(window.period))
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

    /// Features of a cached value.
    pub(crate) fn value_dim(&self) -> usize {
        self.latent.map_or(self.head_dim, |latent| latent.rank)
    }

    /// The total widths of the query heads and of the key heads.
    pub(crate) fn widths(&self) -> Result<(usize, usize)> {
        let width = |heads: usize| {
            heads.checked_mul(self.head_dim).ok_or_else(|| Error::Key {
                key: format!("{}.attention.key_length", self.architecture),
                got: self.head_dim.to_string(),
                wanted: format!("a width that {heads} heads can have"),
            })
        };
        Ok((width(self.heads)?, width(self.kv_heads)?))
    }
}

/// A window applies to all layers unless the family says otherwise, as in Mistral.
fn all_layers_windowed(keys: &Keys<'_>) -> Result<Option<Window>> {
    let size = keys.find::<u32>("attention.sliding_window")?.filter(|size| *size > 0);
    Ok(size.map(|size| Window { size: size as usize, period: usize::MAX, rope_base: None }))
}
