//! Options of `config.json` without an effect on results: some at any value, others at one value only.
use super::options::Options;
use super::parts::Folder;
use crate::Result;
use serde_json::{Value, json};

/// Options that do not affect results. Biases and tied matrices are visible in the tensors, dropout and the
/// like concern training, and sampling is the caller's choice.
pub(super) const HARMLESS: [&str; 96] = [
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_flash_attn_2_enabled",
    "_from_model_config",
    "_name_or_path",
    "architectures",
    "attention_bias",
    "attention_dropout",
    "attention_softmax_in_fp32",
    "attn_implementation",
    "auto_map",
    "aux_loss_alpha",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "embedding_dropout",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "ep_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "id2label",
    "initial_context_length",
    "initializer_range",
    "is_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "max_sequence_length",
    "max_window_layers",
    "min_length",
    "mlp_bias",
    "model_max_length",
    "model_type",
    "neftune_noise_alpha",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "original_max_position_embeddings",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "qkv_bias",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "scale_attention_softmax_in_fp32",
    "sep_token_id",
    "seq_aux",
    "seq_length",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "tokenizer_model_max_length",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_bias",
    "use_cache",
    "use_flash_attention",
    "use_flash_attn",
    "use_qkv_bias",
];

/// Options that models publish although nothing of their family reads them, and the value at which they mean nothing.
const AT_ONE_VALUE: [(&str, Value); 16] = [
    ("add_cross_attention", Value::Bool(false)),
    ("is_causal", Value::Bool(true)),
    ("is_encoder_decoder", Value::Bool(false)),
    ("is_llama_config", Value::Bool(true)),
    ("lm_head_bias", Value::Bool(false)),
    ("qk_layer_norms", Value::Bool(false)),
    ("qk_layernorm", Value::Bool(false)),
    ("rope_interleaved", Value::Bool(false)),
    ("tie_encoder_decoder", Value::Bool(false)),
    ("use_bidirectional_attention", Value::Bool(false)),
    ("use_dynamic_ntk", Value::Bool(false)),
    ("use_logn_attn", Value::Bool(false)),
    ("use_mrope", Value::Bool(false)),
    ("use_parallel_residual", Value::Bool(false)),
    ("use_resampler", Value::Bool(false)),
    ("use_sliding_window", Value::Bool(false)),
];

/// The same for numbers.
const AT_ONE_NUMBER: [(&str, u32); 10] = [
    ("embedding_multiplier", 1),
    ("full_attn_mod", 1),
    ("interpolate_factor", 1),
    ("logits_scaling", 1),
    ("residual_multiplier", 1),
    ("rope_ratio", 1),
    ("rope_scaling_factor", 1),
    ("rotary_scaling_factor", 1),
    ("shared_expert_intermediate_size", 0),
    ("num_shared_experts", 0),
];

/// Refuses any other value of these options, by name. Those that the family has read mean something there.
pub(super) fn check(options: &Options, folder: &Folder) -> Result<()> {
    for (option, only) in AT_ONE_VALUE {
        unread(options, option, &only.to_string(), |value| *value == only)?;
    }
    for (option, only) in AT_ONE_NUMBER {
        unread(options, option, &only.to_string(), |value| value.as_f64() == Some(only.into()))?;
    }
    unread(options, "pruned_heads", "none", |value| *value == json!({}))?;
    // Norms of heads are visible in the tensors, but the option of a family without them says that they are missing.
    let wanted = folder.head_norms.to_string();
    unread(options, "use_qk_norm", &wanted, |value| value.as_bool() == Some(folder.head_norms))?;
    // Names of the activation that nothing reads beside `hidden_act`.
    let gated = match folder.activation {
        "silu" => "swiglu",
        _ => "geglu",
    };
    let activations = [folder.activation, gated];
    unread(options, "activation", &activations.join(" or "), |value| {
        value.as_str().is_some_and(|name| activations.contains(&name))
    })?;
    for (option, same) in [("sliding_window_size", "sliding_window"), ("layer_norm_epsilon", folder.eps)] {
        if options.is_unread(option) && !options.is_unread(same) {
            options.any(&[same, option])?;
        }
    }
    unread(options, "quantization_config", "none: convert the weights to f32, f16 or bf16", |_| false)
}

fn unread(options: &Options, option: &str, wanted: &str, fits: impl Fn(&Value) -> bool) -> Result<()> {
    if options.is_unread(option) { options.only(option, wanted, fits) } else { Ok(()) }
}
