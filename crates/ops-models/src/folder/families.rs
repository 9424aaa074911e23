//! The families as `config.json` describes them.
use super::options::Options;
use super::{encoder, images};
use crate::{Error, Result};

/// A family as `config.json` describes it.
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// Whether it is an encoder, with its own options and tensor names.
    pub(super) encoder: bool,
    /// The same family's name in GGUF.
    pub(super) architecture: &'static str,
    pub(super) eps: &'static str,
    pub(super) activation: &'static str,
    /// The base of rotary frequencies if the file does not give it; `None` if it must.
    pub(super) rope_base: Option<f64>,
    /// The rotated part of each head if the file does not give it; `None` if whole heads must be rotated.
    pub(super) partial_rope: Option<f64>,
    /// Whether the file must give the width of heads.
    pub(super) own_head_dim: bool,
    pub(super) windows: Windows,
    /// Whether the embeddings are also the output matrix, if the file does not say.
    pub(super) tied: bool,
    /// Whether 1 must be added to the weights of norms.
    pub(super) norms_plus_one: bool,
    /// Whether `post_attention_layernorm` is `post_attention_norm` in GGUF; in other families it is
    /// `ffn_norm`.
    pub(super) post_attention_norm: bool,
    /// Tensors with this name prefix are ignored, as `transformers` does.
    pub(super) ignored: Option<&'static str>,
}

/// Which layers have windowed attention.
pub(super) enum Windows {
    None,
    /// All, if there is a size.
    All,
    /// None; a switch that turns them on is refused.
    Off,
    /// All layers except every n-th.
    ButEvery(usize),
}

const COMMON: Family = Family {
    model_type: "llama",
    encoder: false,
    architecture: "llama",
    eps: "rms_norm_eps",
    activation: "silu",
    rope_base: Some(10_000.0),
    partial_rope: None,
    own_head_dim: false,
    windows: Windows::None,
    tied: false,
    norms_plus_one: false,
    post_attention_norm: false,
    ignored: None,
};
const GEMMA: Family = Family {
    activation: "gelu_pytorch_tanh",
    own_head_dim: true,
    tied: true,
    norms_plus_one: true,
    post_attention_norm: true,
    ..COMMON
};

impl Family {
    /// An encoder. It has no separate output matrix.
    pub(super) const fn encoder(model_type: &'static str, architecture: &'static str) -> Self {
        Family { model_type, architecture, encoder: true, tied: true, ..COMMON }
    }
}

/// This is the only list of decoders that folders may hold.
const FAMILIES: [Family; 15] = [
    COMMON,
    Family { model_type: "mistral", windows: Windows::All, ..COMMON },
    Family { model_type: "mixtral", windows: Windows::All, rope_base: Some(1e6), ..COMMON },
    Family { model_type: "qwen2", architecture: "qwen2", windows: Windows::Off, ..COMMON },
    Family {
        model_type: "qwen3",
        architecture: "qwen3",
        windows: Windows::Off,
        own_head_dim: true,
        ..COMMON
    },
    Family {
        model_type: "qwen3_moe",
        architecture: "qwen3moe",
        windows: Windows::Off,
        own_head_dim: true,
        ..COMMON
    },
    Family {
        model_type: "qwen3_next",
        architecture: "qwen3next",
        own_head_dim: true,
        windows: Windows::Off,
        partial_rope: Some(0.25),
        norms_plus_one: true,
        post_attention_norm: true,
        // A layer that predicts more than the next token.
        ignored: Some("mtp."),
        ..COMMON
    },
    Family { model_type: "gemma2", architecture: "gemma2", windows: Windows::ButEvery(2), ..GEMMA },
    Family {
        model_type: "gemma3_text",
        architecture: "gemma3",
        windows: Windows::ButEvery(6),
        rope_base: None,
        ..GEMMA
    },
    Family {
        model_type: "phi3",
        architecture: "phi3",
        windows: Windows::All,
        partial_rope: Some(1.0),
        ..COMMON
    },
    Family {
        model_type: "starcoder2",
        architecture: "starcoder2",
        eps: "norm_epsilon",
        activation: "gelu_pytorch_tanh",
        windows: Windows::All,
        tied: true,
        ..COMMON
    },
    Family {
        model_type: "stablelm",
        architecture: "stablelm",
        eps: "layer_norm_eps",
        partial_rope: Some(0.25),
        ..COMMON
    },
    Family {
        model_type: "gpt_oss",
        architecture: "gpt-oss",
        rope_base: Some(150_000.0),
        own_head_dim: true,
        windows: Windows::ButEvery(2),
        post_attention_norm: true,
        ..COMMON
    },
    Family { model_type: "deepseek_v2", architecture: "deepseek2", ..COMMON },
    Family { model_type: "deepseek_v3", architecture: "deepseek2", ..COMMON },
];

/// The kinds of decoder that folders may hold, as `model_type` in `config.json` names them.
///
/// ```
/// assert!(ops_models::folder_families().any(|name| name == "qwen3_moe"));
/// ```
pub fn folder_families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|family| family.model_type).chain(images::model_types())
}

pub(super) fn find(options: &Options) -> Result<&'static Family> {
    static LIST: [Family; 15] = FAMILIES;
    let model_type = options.required("model_type", options.text("model_type")?)?;
    let family = LIST.iter().find(|family| family.model_type == model_type);
    let known = || folder_families().chain(encoder::encoder_families()).collect();
    let family = family.ok_or_else(|| Error::Family { got: model_type.to_owned(), known: known() })?;
    options.only("architectures", "a class for text generation, ..ForCausalLM", |value| {
        let names = value.as_array().map(Vec::as_slice).unwrap_or_default();
        names.iter().all(|name| name.as_str().is_some_and(|name| name.ends_with("ForCausalLM")))
    })?;
    Ok(family)
}
