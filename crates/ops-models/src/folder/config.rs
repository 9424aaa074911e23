//! `config.json` as the metadata that a GGUF file of the same model has, so that one place says what a model is made of.
use super::deepseek::{self, Expansion};
use super::encoder;
use super::options::Options;
use super::rope;
use crate::{Error, Result};
use ops_gguf::{Metadata, Value};
use std::path::Path;

/// A family as `config.json` describes it.
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// Whether it is an encoder, whose options and names of tensors are its own.
    pub(super) encoder: bool,
    /// The same family's name in GGUF.
    pub(super) architecture: &'static str,
    eps: &'static str,
    activation: &'static str,
    /// The base of rotary frequencies if the file does not say; `None` if it must.
    pub(super) rope_base: Option<f64>,
    /// Whether a part of each head may be rotated.
    pub(super) partial_rope: bool,
    /// Whether the width of heads must be there.
    own_head_dim: bool,
    windows: Windows,
    /// Whether the embeddings are the output matrix, if the file does not say.
    tied: bool,
    /// Whether the weights of norms lack the 1 that is added to them.
    pub(super) norms_plus_one: bool,
}

/// Which layers see only so far.
enum Windows {
    None,
    /// All, if there is a size.
    All,
    /// None, and a switch that turns them on is refused.
    Off,
    /// All but every so-manieth.
    ButEvery(usize),
}

const COMMON: Family = Family {
    model_type: "llama",
    encoder: false,
    architecture: "llama",
    eps: "rms_norm_eps",
    activation: "silu",
    rope_base: Some(10_000.0),
    partial_rope: false,
    own_head_dim: false,
    windows: Windows::None,
    tied: false,
    norms_plus_one: false,
};
const GEMMA: Family = Family {
    activation: "gelu_pytorch_tanh",
    own_head_dim: true,
    tied: true,
    norms_plus_one: true,
    ..COMMON
};

impl Family {
    /// An encoder. It has no output matrix of its own.
    pub(super) const fn encoder(model_type: &'static str, architecture: &'static str) -> Self {
        Family { model_type, architecture, encoder: true, tied: true, ..COMMON }
    }
}

/// This is the only list of decoders that folders may hold.
const FAMILIES: [Family; 13] = [
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
    Family { model_type: "gemma2", architecture: "gemma2", windows: Windows::ButEvery(2), ..GEMMA },
    Family {
        model_type: "gemma3_text",
        architecture: "gemma3",
        windows: Windows::ButEvery(6),
        rope_base: None,
        ..GEMMA
    },
    Family { model_type: "phi3", architecture: "phi3", windows: Windows::All, partial_rope: true, ..COMMON },
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
        partial_rope: true,
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
    FAMILIES.iter().map(|family| family.model_type)
}

/// Options without an effect on results. Biases and tied matrices show in the tensors, dropout and the like are for training,
/// and how to sample is the caller's choice.
pub(super) const HARMLESS: [&str; 55] = [
    "_attn_implementation",
    "_flash_attn_2_enabled",
    "_from_model_config",
    "_name_or_path",
    "architectures",
    "attention_bias",
    "attention_dropout",
    "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32",
    "attn_implementation",
    "auto_map",
    "aux_loss_alpha",
    "ep_size",
    "num_nextn_predict_layers",
    "seq_aux",
    "bos_token_id",
    "cache_implementation",
    "do_sample",
    "dtype",
    "embd_pdrop",
    "embedding_dropout",
    "eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "initializer_range",
    "max_window_layers",
    "mlp_bias",
    "model_type",
    "original_max_position_embeddings",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "task_specific_params",
    "temperature",
    "tokenizer_class",
    "top_p",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bias",
    "use_cache",
    "use_flash_attention",
    "use_qkv_bias",
    "id2label",
    "label2id",
    "problem_type",
];

/// Metadata under the name of an architecture.
pub(super) struct Keys {
    architecture: &'static str,
    pub(super) metadata: Metadata,
}

impl Keys {
    pub(super) fn new(family: &Family) -> Result<Self> {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", family.architecture)?;
        Ok(Keys { architecture: family.architecture, metadata })
    }
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<()> {
        self.metadata.set(format!("{}.{key}", self.architecture), value)?;
        Ok(())
    }
    fn set_if(&mut self, key: &str, value: Option<impl Into<Value>>) -> Result<()> {
        value.map_or(Ok(()), |value| self.set(key, value))
    }
}

/// What `config.json` says.
pub(super) struct Translated {
    pub(super) family: &'static Family,
    pub(super) metadata: Metadata,
    pub(super) tied: bool,
    pub(super) layers: usize,
    /// How keys and values are expanded, if attention is latent.
    pub(super) expansion: Option<Expansion>,
}

pub(super) fn translate(path: &Path) -> Result<Translated> {
    let options = Options::read(path)?;
    let options = options.ok_or_else(|| super::options::wrong(path, "file", "no such file", "one"))?;
    if let Some(encoder) = encoder::translate(&options, path)? {
        return Ok(encoder);
    }
    let family = find(&options)?;
    let mut keys = Keys::new(family)?;
    extents(&options, family, &mut keys)?;
    experts(&options, &mut keys)?;
    windows(&options, family, &mut keys)?;
    rope::translate(&options, family, &mut keys)?;
    choices(&options, family, &mut keys)?;
    let tied = options.flag("tie_word_embeddings")?.unwrap_or(family.tied);
    let expansion = match family.architecture {
        "deepseek2" => Some(deepseek::translate(&options, family.model_type == "deepseek_v3", &mut keys)?),
        _ => None,
    };
    options.finish(&HARMLESS)?;
    let layers = keys.metadata.arch_u32("block_count")? as usize;
    Ok(Translated { family, metadata: keys.metadata, tied, layers, expansion })
}

fn find(options: &Options) -> Result<&'static Family> {
    static LIST: [Family; 13] = FAMILIES;
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

fn extents(options: &Options, family: &Family, keys: &mut Keys) -> Result<()> {
    let mut count = |option: &str, key: &str| -> Result<u32> {
        let n = options.required(option, options.count(option)?)?;
        keys.set(key, n)?;
        Ok(n)
    };
    let dim = count("hidden_size", "embedding_length")?;
    let heads = count("num_attention_heads", "attention.head_count")?;
    count("num_hidden_layers", "block_count")?;
    count("intermediate_size", "feed_forward_length")?;
    count("max_position_embeddings", "context_length")?;
    count("vocab_size", "vocab_size")?;
    if heads == 0 {
        return Err(options.wrong("num_attention_heads", 0, "a positive number"));
    }
    // Only the first models of the llama family have as many key heads as query heads and do not say so.
    let kv_heads = options.count("num_key_value_heads")?;
    let kv_heads = kv_heads.or((family.model_type == "llama").then_some(heads));
    keys.set("attention.head_count_kv", options.required("num_key_value_heads", kv_heads)?)?;
    let head_dim = options.count("head_dim")?.or((!family.own_head_dim).then_some(dim / heads));
    let head_dim = options.required("head_dim", head_dim)?;
    keys.set("attention.key_length", head_dim)?;
    keys.set("attention.value_length", head_dim)?;
    let eps = options.required(family.eps, options.number(family.eps)?)? as f32;
    let kind = if family.eps == "rms_norm_eps" { "rms_" } else { "" };
    keys.set(&format!("attention.layer_norm_{kind}epsilon"), eps)
}

fn experts(options: &Options, keys: &mut Keys) -> Result<()> {
    let Some(option) = options.any(&["num_local_experts", "num_experts"]) else { return Ok(()) };
    keys.set_if("expert_count", options.count(option)?)?;
    let used = options.count("num_experts_per_tok")?;
    keys.set("expert_used_count", options.required("num_experts_per_tok", used)?)?;
    if keys.architecture != "qwen3moe" {
        return Ok(());
    }
    let width = options.count("moe_intermediate_size")?;
    keys.set("expert_feed_forward_length", options.required("moe_intermediate_size", width)?)?;
    options.required("norm_topk_prob", options.flag("norm_topk_prob")?)?;
    options.only("norm_topk_prob", "true", |value| value.as_bool() == Some(true))?;
    options.only("decoder_sparse_step", "1: experts in every layer", |value| value.as_u64() == Some(1))?;
    options.only("mlp_only_layers", "none", |value| value.as_array().is_some_and(Vec::is_empty))
}

fn windows(options: &Options, family: &Family, keys: &mut Keys) -> Result<()> {
    let full: fn(usize, usize) -> bool = match family.windows {
        Windows::None => |_, _| true,
        Windows::Off => {
            options.only("use_sliding_window", "false", |value| value.as_bool() == Some(false))?;
            options.get("sliding_window");
            |_, _| true
        }
        Windows::All => {
            let size = options.count("sliding_window")?;
            keys.set_if("attention.sliding_window", size)?;
            if size.is_some() { |_, _| false } else { |_, _| true }
        }
        Windows::ButEvery(period) => {
            let size = options.count("sliding_window")?;
            keys.set("attention.sliding_window", options.required("sliding_window", size)?)?;
            for option in ["sliding_window_pattern", "_sliding_window_pattern"] {
                options.only(option, &period.to_string(), |value| value.as_u64() == Some(period as u64))?;
            }
            |layer, period| (layer + 1).is_multiple_of(period)
        }
    };
    let period = if let Windows::ButEvery(period) = family.windows { period } else { 1 };
    let name = |layer: usize| if full(layer, period) { "full_attention" } else { "sliding_attention" };
    options.only("layer_types", "the layers of this family that have a window", |value| {
        let layers = value.as_array().map(Vec::as_slice).unwrap_or_default();
        layers.iter().enumerate().all(|(layer, kind)| kind.as_str() == Some(name(layer)))
    })
}

fn choices(options: &Options, family: &Family, keys: &mut Keys) -> Result<()> {
    for option in ["hidden_act", "hidden_activation"] {
        options.only(option, family.activation, |value| value.as_str() == Some(family.activation))?;
    }
    let off = |option| options.only(option, "false", |value| value.as_bool() == Some(false));
    match family.architecture {
        "gemma2" | "gemma3" => {
            for option in ["attn_logit_softcapping", "final_logit_softcapping"] {
                keys.set_if(option, options.number(option)?.map(|cap| cap as f32))?;
            }
            let scalar = options.number("query_pre_attn_scalar")?;
            let scalar = options.required("query_pre_attn_scalar", scalar)?;
            keys.set("attention.scale", (1.0 / scalar.sqrt()) as f32)?;
            off("use_bidirectional_attention")?;
        }
        "stablelm" => {
            keys.set_if("use_parallel_residual", options.flag("use_parallel_residual")?)?;
            off("qk_layernorm")?;
        }
        "starcoder2" => {
            options.only("norm_type", "layer_norm", |value| value.as_str() == Some("layer_norm"))?;
            options.only("mlp_type", "default", |value| value.as_str() == Some("default"))?;
            options.only("scale_attn_weights", "true", |value| value.as_bool() == Some(true))?;
        }
        // Rows of queries and keys are in the order of halves; in GGUF files of this family they are not.
        "llama" => keys.set("rope.halves", true)?,
        _ => {}
    }
    Ok(())
}
