//! The families as `config.json` describes them.
use super::options::Options;
use super::parts::{COMMON, Family, Keys, Split, Windows};
use super::{deepseek, encoder, gpt_oss, images, qwen3_next};
use crate::{Error, Result};

const LLAMA: Family = Family {
    // Rows of queries and keys are in halves; in GGUF files of this family they are in pairs.
    translate: |_, keys| keys.set("rope.halves", true).map(|()| Split::None),
    ..COMMON
};
const GEMMA: Family = Family {
    translate: gemma,
    activation: "gelu_pytorch_tanh",
    own_head_dim: true,
    tied: true,
    norms_plus_one: true,
    post_attention_norm: true,
    ..COMMON
};

const DEEPSEEK: Family =
    Family { architecture: "deepseek2", yarn_mscale: true, add_changed: deepseek::add, ..COMMON };

/// This is the only list of decoders that folders may hold.
const FAMILIES: [Family; 15] = [
    LLAMA,
    Family { model_type: "mistral", windows: Windows::All, ..LLAMA },
    Family { model_type: "mixtral", windows: Windows::All, rope_base: Some(1e6), ..LLAMA },
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
        experts: qwen3_next::experts,
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
        own_layer_types: true,
        experts: qwen3_next::experts_and_shared,
        translate: qwen3_next::translate,
        add_changed: qwen3_next::add,
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
        long_rope: true,
        ..COMMON
    },
    Family {
        model_type: "starcoder2",
        architecture: "starcoder2",
        eps: "norm_epsilon",
        activation: "gelu_pytorch_tanh",
        windows: Windows::All,
        tied: true,
        translate: starcoder2,
        ..COMMON
    },
    Family {
        model_type: "stablelm",
        architecture: "stablelm",
        eps: "layer_norm_eps",
        partial_rope: Some(0.25),
        translate: stablelm,
        ..COMMON
    },
    Family {
        model_type: "gpt_oss",
        architecture: "gpt-oss",
        rope_base: Some(150_000.0),
        own_head_dim: true,
        windows: Windows::ButEvery(2),
        post_attention_norm: true,
        experts: gpt_oss::experts,
        translate: gpt_oss::translate,
        add_changed: gpt_oss::add,
        ..COMMON
    },
    Family { model_type: "deepseek_v2", translate: deepseek::translate_v2, ..DEEPSEEK },
    Family { model_type: "deepseek_v3", translate: deepseek::translate_v3, ..DEEPSEEK },
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

fn gemma(options: &Options, keys: &mut Keys) -> Result<Split> {
    for option in ["attn_logit_softcapping", "final_logit_softcapping"] {
        keys.set_if(option, options.number(option)?.map(|cap| cap as f32))?;
    }
    let scalar = options.number("query_pre_attn_scalar")?;
    let scalar = options.required("query_pre_attn_scalar", scalar)?;
    keys.set("attention.scale", (1.0 / scalar.sqrt()) as f32)?;
    options.only("use_bidirectional_attention", "false", |value| value.as_bool() == Some(false))?;
    Ok(Split::None)
}

fn stablelm(options: &Options, keys: &mut Keys) -> Result<Split> {
    keys.set_if("use_parallel_residual", options.flag("use_parallel_residual")?)?;
    options.only("qk_layernorm", "false", |value| value.as_bool() == Some(false))?;
    Ok(Split::None)
}

fn starcoder2(options: &Options, _: &mut Keys) -> Result<Split> {
    options.only("norm_type", "layer_norm", |value| value.as_str() == Some("layer_norm"))?;
    options.only("mlp_type", "default", |value| value.as_str() == Some("default"))?;
    // Left over from the model's training: `transformers` reads `hidden_act`.
    options.only("activation_function", "gelu", |value| value.as_str() == Some("gelu"))?;
    options.only("scale_attn_weights", "true", |value| value.as_bool() == Some(true))?;
    Ok(Split::None)
}
