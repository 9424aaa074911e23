//! What a model is made of.
use crate::families;
use crate::keys::Keys;
use crate::{Error, Result};
use ops_core::model::RopeScaling;
use ops_core::ops::RopeForm;
use ops_gguf::Metadata;

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
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Width of the feed-forward block.
    pub ffn: usize,
    /// Context that the model was trained for, in tokens.
    pub context: usize,
    /// The kind of all norms but those of heads, which are always root mean square.
    pub norm: NormKind,
    /// The `eps` of every norm.
    pub norm_eps: f64,
    /// How rotated features pair up.
    pub rope: RopeForm,
    /// Features of a head that are rotated; the rest pass through.
    pub rope_dim: usize,
    /// Base of the rotary frequencies.
    pub rope_base: f64,
    /// How positions map to angles.
    pub rope_scaling: RopeScaling,
    /// Layers whose attention reaches only so far.
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
    /// Attention and feed-forward read the same input, and both are added to it.
    pub parallel: bool,
    /// The mixture of experts, if the feed-forward block is one.
    pub experts: Option<Experts>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    /// `silu(gate) · up`
    Swiglu,
    /// `gelu(gate) · up`, in the tanh form.
    Geglu,
    /// `gelu(up)`, in the tanh form; there is no gate.
    Gelu,
}

/// Layers whose attention reaches only so far back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Window {
    /// Positions that a token sees, its own included.
    pub size: usize,
    /// Every so-manieth layer is without a window; `usize::MAX` for none.
    pub period: usize,
    /// The base of the rotary frequencies in these layers, which have no scaling; `None` if they rotate like the others.
    pub rope_base: Option<f64>,
}

/// A mixture of experts.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Experts {
    /// Number of experts.
    pub count: usize,
    /// How many of them compute a token.
    pub used: usize,
    /// Width of an expert.
    pub ffn: usize,
    /// The weights of the chosen ones are scaled to sum to 1.
    pub renormalize: bool,
}

/// Keys with an effect on results that no family has unless it says so.
const REFUSED: [&str; 8] = [
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "logit_scale",
    "residual_scale",
    "embedding_scale",
    "expert_shared_count",
    "expert_group_count",
    "leading_dense_block_count",
];

/// A key that only some families have, and whether this configuration leaves it unread.
type FamilyKey = (&'static str, fn(&Config) -> bool);

/// Keys that only some families have.
const BY_FAMILY: [FamilyKey; 3] = [
    ("attn_logit_softcapping", |config| config.score_softcap.is_none()),
    ("final_logit_softcapping", |config| config.logit_softcap.is_none()),
    ("expert_count", |config| config.experts.is_none()),
];

impl Config {
    /// Reads the configuration from a file's metadata.
    ///
    /// # Errors
    /// [`Error::Family`] for an unknown architecture, [`Error::Key`] for a value that cannot be honoured, [`Error::File`] for a
    /// missing key.
    pub fn new(metadata: &Metadata) -> Result<Self> {
        let keys = Keys::new(metadata)?;
        let family = families::find(keys.architecture())?;
        let mut config = Self::common(&keys)?;
        (family.adjust)(&keys, &mut config)?;
        config.norm_eps = match config.norm {
            NormKind::Rms => metadata.arch_f32("attention.layer_norm_rms_epsilon")?.into(),
            NormKind::Layer => metadata.arch_f32("attention.layer_norm_epsilon")?.into(),
        };
        config.check(&keys)?;
        Ok(config)
    }

    /// What all families have in common.
    fn common(keys: &Keys<'_>) -> Result<Self> {
        let (dim, heads) = (keys.count("embedding_length")?, keys.count("attention.head_count")?);
        let head_dim = keys.count_or("attention.key_length", dim / heads)?;
        Ok(Config {
            architecture: keys.architecture().to_owned(),
            dim,
            layers: keys.count("block_count")?,
            heads,
            kv_heads: keys.count_or("attention.head_count_kv", heads)?,
            head_dim,
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
        })
    }

    fn check(&self, keys: &Keys<'_>) -> Result<()> {
        let Config { heads, kv_heads, head_dim, rope_dim, .. } = *self;
        if heads % kv_heads != 0 {
            let wanted = format!("a divisor of the {heads} query heads");
            return Err(keys.wrong("attention.head_count_kv", kv_heads, wanted));
        }
        let value_dim = keys.count_or("attention.value_length", head_dim)?;
        if value_dim != head_dim {
            return Err(keys.wrong("attention.value_length", value_dim, format!("{head_dim}, as keys have")));
        }
        if rope_dim % 2 != 0 || rope_dim > head_dim {
            let wanted = format!("an even number up to {head_dim}");
            return Err(keys.wrong("rope.dimension_count", rope_dim, wanted));
        }
        if let Some(Experts { count, used, .. }) = self.experts
            && used > count
        {
            return Err(keys.wrong("expert_used_count", used, format!("at most {count}")));
        }
        REFUSED.iter().try_for_each(|key| keys.refuse(key))?;
        BY_FAMILY.iter().filter(|(_, without)| without(self)).try_for_each(|(key, _)| keys.refuse(key))
    }

    /// Whether the attention of this layer has a window.
    pub fn is_windowed(&self, layer: usize) -> bool {
        self.window.as_ref().is_some_and(|window| !(layer + 1).is_multiple_of(window.period))
    }

    /// The widths of all query heads, and of all key heads.
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

/// A window is in all layers unless the family says otherwise, as in Mistral.
fn all_layers_windowed(keys: &Keys<'_>) -> Result<Option<Window>> {
    let size = keys.find::<u32>("attention.sliding_window")?.filter(|size| *size > 0);
    Ok(size.map(|size| Window { size: size as usize, period: usize::MAX, rope_base: None }))
}
