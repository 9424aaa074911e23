//! `config.json` as published with the most used models of the families here. `tests/data/configs.json` says where each was found.
use crate::folders::folder;
use rocm_ops::Cpu;
use rocm_ops::models::{self, Decoder, OpenOptions};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Options that give extents, which a test's small weights have, or that say which tensors exist.
const EXTENTS: [&str; 25] = [
    "first_k_dense_replace",
    "head_dim",
    "hidden_size",
    "intermediate_size",
    "kv_lora_rank",
    "moe_intermediate_size",
    "n_group",
    "n_routed_experts",
    "n_shared_experts",
    "num_attention_heads",
    "num_experts",
    "num_experts_per_tok",
    "experts_per_token",
    "num_hidden_layers",
    "num_key_value_heads",
    "num_local_experts",
    "partial_rotary_factor",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "tie_word_embeddings",
    "topk_group",
    "v_head_dim",
    "vocab_size",
    "layer_types",
];

/// The folder of small weights for a published configuration.
fn weights(config: &Value) -> String {
    match config["model_type"].as_str().unwrap() {
        "phi3" if config["rope_scaling"].is_object() => "phi3_long".to_owned(),
        "gemma3_text" => "gemma3".to_owned(),
        "qwen3_moe" => "qwen3moe".to_owned(),
        name => name.to_owned(),
    }
}

/// A published configuration with the extents of small weights.
fn reduced(published: &Value, small: &Value) -> Value {
    let mut config = published.clone();
    for option in EXTENTS {
        let published_has = !published[option].is_null();
        match (option, &small[option]) {
            ("num_experts", _) if published_has => config[option] = small["num_local_experts"].clone(),
            ("experts_per_token", _) if published_has => {
                config[option] = small["num_experts_per_tok"].clone()
            }
            ("num_local_experts", _) if !published_has => {}
            ("head_dim", Value::Null) if published_has => {
                config[option] = json!(
                    small["hidden_size"].as_u64().unwrap() / small["num_attention_heads"].as_u64().unwrap()
                );
            }
            (_, value) => config[option] = value.clone(),
        }
    }
    // Factors of as many frequencies as the small heads have.
    for list in ["long_factor", "short_factor"] {
        if let Some(factors) = config["rope_scaling"].get_mut(list).and_then(Value::as_array_mut) {
            factors.truncate(small["rope_parameters"][list].as_array().unwrap().len());
        }
    }
    config
}

/// Small weights with this configuration, removed at the end.
struct Small(PathBuf);

impl Small {
    fn new(name: &str, weights: &Path, config: &Value) -> Self {
        let to =
            std::env::temp_dir().join(format!("published-{}-{}", name.replace('/', "-"), std::process::id()));
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(weights).unwrap() {
            let path = entry.unwrap().path();
            if path.to_str().unwrap().contains("safetensors") {
                std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
            }
        }
        std::fs::write(to.join("config.json"), config.to_string()).unwrap();
        Small(to)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn published() -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(format!("{}/data/configs.json", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    all.into_iter().map(|one| (one["model"].as_str().unwrap().to_owned(), one["config"].clone())).collect()
}

fn small(config: &Value) -> (PathBuf, Value) {
    let path = PathBuf::from(folder(&weights(config)));
    let text = std::fs::read_to_string(path.join("config.json")).unwrap();
    (path, serde_json::from_str(&text).unwrap())
}

#[test]
fn published_configurations_load_and_run() {
    let all = published();
    assert!(all.len() >= 30);
    let cpu = Cpu::new();
    for (name, config) in &all {
        let (path, extents) = small(config);
        let mut config = reduced(config, &extents);
        if config["quantization_config"]["quant_method"] == "fp8" {
            let refused = models::open(&Small::new(name, &path, &config).0).unwrap_err().to_string();
            assert!(refused.contains("option `quantization_config`"), "{name}: {refused}");
            config["quantization_config"] = Value::Null; // as after a conversion
        }
        let copy = Small::new(name, &path, &config);
        let model = models::open(&copy.0).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(models::warnings(&model), [""; 0], "{name}");
        let decoder = Decoder::<f32, _>::load(&cpu, &model, 16).unwrap_or_else(|e| panic!("{name}: {e}"));
        let logits = decoder.forward(&cpu, &mut decoder.state(&cpu, 16).unwrap(), &[3, 1, 2]).unwrap();
        assert!(logits.iter().all(|logit| logit.is_finite()), "{name}");
    }
}

/// Of an option without an effect at one value, any other value is an error that names it.
#[test]
fn options_without_effect_are_accepted_at_that_value_only() {
    for (name, option, accepted, refused) in [
        ("llama", "is_llama_config", json!(true), json!(false)),
        ("llama", "rope_interleaved", json!(false), json!(true)),
        ("qwen2", "use_mrope", json!(false), json!(true)),
        ("llama", "activation", json!("swiglu"), json!("gelu")),
        ("llama", "activation", json!("silu"), json!("relu")),
        ("phi3", "lm_head_bias", json!(false), json!(true)),
        ("phi3", "full_attn_mod", json!(1), json!(2)),
        ("qwen3moe", "shared_expert_intermediate_size", json!(0), json!(32)),
        ("qwen3moe", "use_qk_norm", json!(true), json!(false)),
        ("llama", "use_qk_norm", json!(false), json!(true)),
        ("gemma2", "sliding_window_size", json!(8), json!(9)),
        ("llama", "rope_theta", json!(10000), json!(500.5)),
        (
            "llama",
            "rope_scaling",
            json!({"rope_type": "llama3", "factor": 8}),
            json!({"rope_type": "linear"}),
        ),
        ("phi3_long", "rope_parameters.original_max_position_embeddings", json!(40), json!(41)),
        ("mistral3", "hidden_size", json!(64), json!(65)),
    ] {
        let open = |value: &Value| {
            let copy = crate::folders::Copy::changed(name, option, value.clone());
            models::open(&copy.0).map(drop).map_err(|e| e.to_string())
        };
        assert_eq!(open(&accepted), Ok(()), "{name}, {option} = {accepted}");
        let message = open(&refused).unwrap_err();
        assert!(message.contains(option), "{name}, {option} = {refused}: {message}");
    }
    for harmless in ["transformers.js_config", "max_sequence_length", "_attn_implementation_autoset"] {
        let copy = crate::folders::Copy::new("llama", harmless);
        let path = copy.0.join("config.json");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        config[harmless] = json!(true);
        std::fs::write(path, config.to_string()).unwrap();
        models::open(&copy.0).unwrap();
    }
}

#[test]
fn unknown_options_are_named_and_can_be_a_warning() {
    let copy = crate::folders::Copy::changed("llama", "logit_scale", json!(0.5));
    let path = copy.0.join("config.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config["another"] = json!([1]);
    std::fs::write(&path, config.to_string()).unwrap();
    let named = |text: &str| text.contains("options `another`, `logit_scale`") && text.contains("[1], 0.5");
    let refused = models::open(&copy.0).unwrap_err().to_string();
    assert!(named(&refused) && refused.contains("--allow-unknown-options"), "{refused}");
    let model = OpenOptions::new().allow_unknown_options(true).open(&copy.0).unwrap();
    let warnings = models::warnings(&model);
    assert!(warnings.len() == 1 && named(&warnings[0]), "{warnings:?}");
    // An option that this program knows stays an error at a value that it does not implement.
    let known = crate::folders::Copy::changed("llama", "hidden_act", json!("gelu"));
    assert!(OpenOptions::new().allow_unknown_options(true).open(&known.0).is_err());
}
