//! The model's configuration, from the file's metadata.
use super::Result;
use rocm_ops::gguf::Metadata;
use rocm_ops::model::RopeScaling;

/// Extents and constants of a Llama model.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Width of the residual stream.
    pub(crate) dim: usize,
    /// Number of decoder layers.
    pub(crate) layers: usize,
    /// Number of query heads.
    pub(crate) heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub(crate) kv_heads: usize,
    /// Features per head.
    pub(crate) head_dim: usize,
    /// Features per head that are rotated; the rest pass through.
    pub(crate) rope_dim: usize,
    /// Base of the rotary frequencies.
    pub(crate) rope_base: f64,
    /// How positions map to angles.
    pub(crate) rope_scaling: RopeScaling,
    /// Width of the feed-forward layer.
    pub(crate) ffn: usize,
    /// Context length that the model was trained for, in tokens.
    pub(crate) context: usize,
    /// The `eps` of every norm.
    pub(crate) norm_eps: f64,
}

impl Config {
    /// Reads the configuration from a file's metadata.
    pub(crate) fn new(meta: &Metadata) -> Result<Self> {
        let architecture = meta.architecture()?;
        if architecture != "llama" {
            return Err(format!(
                "architecture {architecture:?} is not supported; this program runs \"llama\""
            )
            .into());
        }
        let count = |key: &str| -> Result<usize> {
            match meta.arch_u32(key)? as usize {
                0 => Err(format!("{architecture}.{key} is 0, expected a positive number").into()),
                n => Ok(n),
            }
        };
        let or = |key: &str, otherwise: usize| -> Result<usize> {
            Ok(if meta.arch_find::<u32>(key)?.is_some() { count(key)? } else { otherwise })
        };
        if let Some(experts) = meta.arch_find::<u32>("expert_count")?.filter(|n| *n > 0) {
            return Err(format!("a mixture of {experts} experts is not supported").into());
        }
        let (dim, heads) = (count("embedding_length")?, count("attention.head_count")?);
        let kv_heads = or("attention.head_count_kv", heads)?;
        let head_dim = or("attention.key_length", dim / heads)?;
        let value_dim = or("attention.value_length", head_dim)?;
        let rope_dim = or("rope.dimension_count", head_dim)?;
        if heads % kv_heads != 0 {
            return Err(format!("{heads} query heads cannot share {kv_heads} key heads evenly").into());
        }
        if value_dim != head_dim {
            return Err(format!(
                "values of {value_dim} features beside keys of {head_dim} are not supported"
            )
            .into());
        }
        if rope_dim % 2 != 0 || rope_dim > head_dim {
            return Err(format!(
                "rope.dimension_count is {rope_dim}, expected an even number up to {head_dim}"
            )
            .into());
        }
        Ok(Config {
            dim,
            layers: count("block_count")?,
            heads,
            kv_heads,
            head_dim,
            rope_dim,
            rope_base: meta.arch_find::<f32>("rope.freq_base")?.unwrap_or(10_000.0).into(),
            rope_scaling: rope_scaling(meta)?,
            ffn: count("feed_forward_length")?,
            context: count("context_length")?,
            norm_eps: meta.arch_f32("attention.layer_norm_rms_epsilon")?.into(),
        })
    }
}

fn rope_scaling(meta: &Metadata) -> Result<RopeScaling> {
    let float = |key: &str| meta.arch_find::<f32>(key).map(|v| v.map(f64::from));
    let factor = match float("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        // The key in files that predate typed scaling.
        None => float("rope.scale_linear")?,
    };
    let kind = meta.arch_find::<&str>("rope.scaling.type")?;
    match (kind, factor) {
        (Some("none"), _) | (None, None) => Ok(RopeScaling::None),
        (None | Some("linear"), Some(factor)) => Ok(RopeScaling::Linear { factor }),
        (Some("yarn"), Some(factor)) => Ok(RopeScaling::Yarn {
            factor,
            original_context: meta.arch_u32("rope.scaling.original_context_length")?.into(),
            beta_fast: float("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
            beta_slow: float("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
            attention_factor: float("rope.scaling.attn_factor")?,
        }),
        (Some(kind), factor) => {
            Err(format!("rope scaling {kind:?} with factor {factor:?} is not supported").into())
        }
    }
}
