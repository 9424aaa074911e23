//! What differs between the layers of a model.
use crate::Result;
use crate::keys::Keys;

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
    /// Whether value head `i` belongs to key head `i % key_heads`, not `i / (value_heads / key_heads)`.
    pub tiled: bool,
}

/// Queries at `position` are multiplied by `1 + beta · ln(1 + ⌊position / original⌋)`. Meta, "Llama 4", 2025.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QueryGrowth {
    /// How fast they grow.
    pub beta: f64,
    /// Positions before this one leave queries as they are.
    pub original: usize,
}

impl QueryGrowth {
    /// The factor at this position.
    pub(crate) fn at(&self, position: usize) -> f64 {
        1.0 + self.beta * ((position / self.original) as f64).ln_1p()
    }
}

/// Extents of the heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadShape {
    /// Number of key and value heads.
    pub kv_heads: usize,
    /// Features per head.
    pub head_dim: usize,
    /// Rotated features per head.
    pub rope_dim: usize,
}

impl Window {
    /// A window of this size in all layers but every `period`-th, which otherwise are alike.
    pub(crate) fn but_every(period: usize, size: usize) -> Self {
        Window { size, period, layers: None, heads: None, rope_base: None }
    }
}

/// Layers with windowed attention.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Window {
    /// Positions that a token sees, including its own.
    pub size: usize,
    /// Every `period`-th layer has no window; `usize::MAX` means that every layer has one.
    pub period: usize,
    /// Whether each layer has a window, if that does not follow from a period.
    pub layers: Option<Vec<bool>>,
    /// The heads of these layers, if they differ from those of others.
    pub heads: Option<HeadShape>,
    /// The base of the rotary frequencies in these layers, which have no scaling; `None` if they rotate like
    /// the others.
    pub rope_base: Option<f64>,
}

impl Recurrent {
    /// Reads the metadata of a model with this many layers, and some after them that are not used.
    pub(crate) fn read(keys: &Keys<'_>, (layers, further_layers): (usize, usize)) -> Result<Self> {
        let layers = match keys.find::<&[bool]>("attention.recurrent_layers")? {
            Some(said) if [layers, layers + further_layers].contains(&said.len()) => said[..layers].to_vec(),
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
            tiled: false,
        })
    }
}
