//! `config.json` as the metadata that a GGUF file of the same model has, so that a model is described in only
//! one way.
use super::deepseek::{self, Expansion};
use super::encoder;
use super::families::{self, Family, Windows};
use super::images;
use super::options::Options;
use super::qwen3_next::{self, LinearHeads};
use super::rope::{self, LongFactors};
use crate::Result;
use ops_gguf::{Metadata, Value};
use std::path::Path;

/// Options that do not affect results. Biases and tied matrices are visible in the tensors, dropout and the
/// like concern training, and sampling is the caller's choice.
pub(super) const HARMLESS: [&str; 56] = [
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
    "initial_context_length",
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

/// The contents of `config.json`.
pub(super) struct Translated {
    pub(super) family: &'static Family,
    /// Whether the text model's tensors have a prefix, and others are for images.
    pub(super) has_images: bool,
    pub(super) metadata: Metadata,
    pub(super) tied: bool,
    pub(super) layers: usize,
    /// How keys and values are expanded, if attention is latent.
    pub(super) expansion: Option<Expansion>,
    /// The heads of linear attention, if there is any.
    pub(super) linear: Option<LinearHeads>,
    /// Factors of rotary frequencies, which are tensors in GGUF.
    pub(super) long_factors: Option<LongFactors>,
}

pub(super) fn translate(path: &Path) -> Result<Translated> {
    let options = Options::read(path)?;
    let options = options.ok_or_else(|| super::options::wrong(path, "file", "no such file", "a file"))?;
    if let Some(encoder) = encoder::translate(&options, path)? {
        return Ok(encoder);
    }
    let text = images::text_config(&options, &HARMLESS)?;
    let has_images = text.is_some();
    let options = text.unwrap_or(options);
    let family = families::find(&options)?;
    let mut keys = Keys::new(family)?;
    extents(&options, family, &mut keys)?;
    experts(&options, family, &mut keys)?;
    windows(&options, family, &mut keys)?;
    let long_factors = rope::translate(&options, family, &mut keys)?;
    choices(&options, family, &mut keys)?;
    let tied = options.flag("tie_word_embeddings")?.unwrap_or(family.tied);
    let expansion = match family.architecture {
        "deepseek2" => Some(deepseek::translate(&options, family.model_type == "deepseek_v3", &mut keys)?),
        _ => None,
    };
    let linear = match family.architecture {
        "qwen3next" => Some(qwen3_next::translate(&options, &mut keys)?),
        _ => None,
    };
    options.finish(&HARMLESS)?;
    let layers = keys.metadata.arch_u32("block_count")? as usize;
    Ok(Translated {
        family,
        has_images,
        metadata: keys.metadata,
        tied,
        layers,
        expansion,
        linear,
        long_factors,
    })
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
    // Only the first models of the llama family omit the number of key heads; it equals that of query heads.
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

fn experts(options: &Options, family: &Family, keys: &mut Keys) -> Result<()> {
    let Some(option) = options.any(&["num_local_experts", "num_experts"]) else { return Ok(()) };
    keys.set_if("expert_count", options.count(option)?)?;
    let used = options.count("num_experts_per_tok")?;
    keys.set("expert_used_count", options.required("num_experts_per_tok", used)?)?;
    let mut width =
        |option: &str, key: &str| keys.set(key, options.required(option, options.count(option)?)?);
    match family.architecture {
        "qwen3moe" | "qwen3next" => {
            width("moe_intermediate_size", "expert_feed_forward_length")?;
            if family.architecture == "qwen3next" {
                width("shared_expert_intermediate_size", "expert_shared_feed_forward_length")?;
            }
            options.required("norm_topk_prob", options.flag("norm_topk_prob")?)?;
            options.only("norm_topk_prob", "true", |value| value.as_bool() == Some(true))?;
            let every = "1: experts in every layer";
            options.only("decoder_sparse_step", every, |value| value.as_u64() == Some(1))?;
            options.only("mlp_only_layers", "none", |value| value.as_array().is_some_and(Vec::is_empty))
        }
        "gpt-oss" => {
            width("intermediate_size", "expert_feed_forward_length")?;
            let used = used.unwrap_or(0);
            options.only("experts_per_token", &used.to_string(), |value| value.as_u64() == Some(used.into()))
        }
        _ => Ok(()),
    }
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
    if family.architecture == "qwen3next" {
        return Ok(()); // this family names its kinds of layers differently
    }
    let period = if let Windows::ButEvery(period) = family.windows { period } else { 1 };
    let name = |layer: usize| if full(layer, period) { "full_attention" } else { "sliding_attention" };
    options.only("layer_types", "the pattern of windowed layers in this family", |value| {
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
        "gpt-oss" => {
            for (option, only) in [("swiglu_alpha", 1.702), ("swiglu_limit", 7.0)] {
                options.only(option, &only.to_string(), |value| value.as_f64() == Some(only))?;
            }
            options.only("quantization_config", "quant_method mxfp4", |value| {
                value.get("quant_method").and_then(|method| method.as_str()) == Some("mxfp4")
            })?;
        }
        // Rows of queries and keys are in halves; in GGUF files of this family they are in pairs.
        "llama" => keys.set("rope.halves", true)?,
        _ => {}
    }
    Ok(())
}
