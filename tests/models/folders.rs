//! Folders as written by `save_pretrained` of the Python package `transformers`, with logits that it computed
//! in float64 (`tools/generate/family-fixture.py --folders`).
use ops_tests::families::{check_batch, check_model};
use rocm_ops::gguf::{EncodeOptions, GgmlType, Gguf};
use rocm_ops::model::RopeScaling;
use rocm_ops::models::{self, Decoder};
use rocm_ops::{Checked, Cpu, Reference};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) fn folder(name: &str) -> String {
    format!("{}/data/folders/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn expected(name: &str) -> Value {
    let text = std::fs::read_to_string(format!("{}/expected.json", folder(name))).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_family_is_what_transformers_computes() {
    let mut kinds = BTreeSet::new();
    for entry in std::fs::read_dir(folder("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.as_str();
        let config = std::fs::read_to_string(format!("{}/config.json", folder(name))).unwrap();
        let config: Value = serde_json::from_str(&config).unwrap();
        let kind = config["model_type"].as_str().unwrap().to_owned();
        // Encoders, and a folder without logits of its own.
        if models::encoder_families().any(|encoder| encoder == kind) || name == "gpt_oss-MXFP4" {
            continue;
        }
        kinds.insert(kind);
        let model = models::open(folder(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let path = format!("{}/expected.json", folder(name));
        check_model(&Cpu::new(), (name, &model), &path, usize::MAX, 15);
    }
    let unseen: Vec<_> = models::folder_families().filter(|kind| !kinds.contains(*kind)).collect();
    // Those with images are made of the others in a test below.
    assert_eq!(unseen, ["qwen3_5", "qwen3_5_moe", "gemma3n", "gemma4"]);
}

/// The weights of another folder, with experts in blocks that represent them exactly.
#[test]
fn experts_in_blocks_are_the_same_experts() {
    let (name, path) = ("gpt_oss-MXFP4", format!("{}/expected.json", folder("gpt_oss")));
    let model = models::open(folder(name)).unwrap();
    assert_eq!(model.tensor("blk.1.ffn_up_exps.weight").unwrap().ggml_type(), GgmlType::MXFP4);
    check_model(&Reference::new(), (name, &model), &path, usize::MAX, 5);
    check_model(&Cpu::new(), (name, &model), &path, usize::MAX, 5);

    let alone = Copy::new(name, "alone");
    let path = alone.0.join("model.safetensors");
    replace(&path, "layers.1.mlp.experts.down_proj_scales", "layers.7.mlp.experts.down_proj_scales");
    assert!(alone.refused().contains("layers.1.mlp.experts.down_proj: got"), "{}", alone.refused());
}

/// Multimodal models leave out options of their text model.
#[test]
fn the_text_part_has_its_own_defaults() {
    let config = |folder: &Path| models::Config::new(models::open(folder).unwrap().metadata()).unwrap();
    let copy = Copy::changed("gemma3_images", "text_config.query_pre_attn_scalar", json!(null));
    let (own, default) = (config(folder("gemma3_images").as_ref()), config(&copy.0));
    let scale = (1.0 / 24.0_f64.sqrt()) as f32;
    assert_eq!((own.score_scale, default.score_scale), (Some(scale.into()), Some(0.0625)));
}

/// The text model inside a model for texts and images, whose files have other names and tensors for images.
#[test]
fn a_text_model_is_the_same_inside_one_with_images() {
    for (name, kind, class) in [
        ("qwen3_5", "qwen3_5", "Qwen3_5ForConditionalGeneration"),
        ("qwen3_5_moe", "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration"),
        ("gemma3n", "gemma3n", "Gemma3nForConditionalGeneration"),
        ("gemma4_e", "gemma4", "Gemma4ForConditionalGeneration"),
    ] {
        let copy = Copy::new(name, "images");
        let text: Value =
            serde_json::from_str(&std::fs::read_to_string(copy.0.join("config.json")).unwrap()).unwrap();
        let whole = json!({
            "model_type": kind, "architectures": [class], "text_config": text, "vision_config": {"depth": 1},
            "image_token_id": 317, "video_token_id": 318, "tie_word_embeddings": text["tie_word_embeddings"],
        });
        std::fs::write(copy.0.join("config.json"), whole.to_string()).unwrap();
        rename_tensors(&copy.0.join("model.safetensors"), |name| match name.strip_prefix("model.") {
            Some(rest) => format!("model.language_model.{rest}"),
            None => name.to_owned(),
        });
        let model = models::open(&copy.0).unwrap_or_else(|e| panic!("{name}: {e}"));
        let path = format!("{}/expected.json", folder(name));
        check_model(&Cpu::new(), (name, &model), &path, 2, 5);
    }
}

/// Gives the tensors of a safetensors file other names, and adds one for images.
fn rename_tensors(path: &Path, name: impl Fn(&str) -> String) {
    let bytes = std::fs::read(path).unwrap();
    let (header, data) = bytes[8..].split_at(u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize);
    let header: serde_json::Map<String, Value> = serde_json::from_slice(header).unwrap();
    let mut renamed: serde_json::Map<_, _> =
        header.into_iter().map(|(old, tensor)| (name(&old), tensor)).collect();
    let end = [data.len(), data.len() + 4];
    renamed.insert("model.visual.x".into(), json!({"dtype": "F32", "shape": [1], "data_offsets": end}));
    let header = Value::Object(renamed).to_string().into_bytes();
    let length = (header.len() as u64).to_le_bytes();
    std::fs::write(path, [&length[..], &header, data, &[0; 4]].concat()).unwrap();
}

#[test]
fn yarn_rounds_its_range_unless_the_file_says_no() {
    let copy = Copy::changed("qwen3", "rope_parameters.truncate", json!(false));
    for (folder, rounds) in [(copy.0.clone(), false), (folder("qwen3").into(), true)] {
        let config = models::Config::new(models::open(folder).unwrap().metadata()).unwrap();
        let RopeScaling::Yarn { truncate, .. } = config.rope_scaling else { panic!("{config:?}") };
        assert_eq!(truncate, rounds);
    }
}

#[test]
fn with_every_op_checked() {
    let checked = Checked::new(Cpu::new(), Reference::new());
    for name in ["llama", "qwen3moe", "gemma3", "gpt_oss", "qwen3_next"] {
        let model = models::open(folder(name)).unwrap();
        check_model(&checked, (name, &model), &format!("{}/expected.json", folder(name)), 2, 3);
    }
}

#[test]
fn matrices_stay_where_they_lie() {
    let model = models::open(folder("mistral")).unwrap();
    for name in ["token_embd.weight", "blk.1.ffn_up.weight"] {
        assert!(model.tensor(name).unwrap().raw_data().unwrap().is_shared(), "{name}");
    }
    // A single expert is part of one file; all of them together are a copy.
    let experts = models::open(folder("mixtral")).unwrap();
    let tensor = experts.tensor("blk.0.ffn_down_exps.weight").unwrap();
    assert_eq!(tensor.dims(), [4, 64, 48]);
    assert_eq!(tensor.bytes().unwrap().len(), 4 * 64 * 48 * 2);
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

#[test]
fn texts_have_the_tokens_of_tokenizer_json() {
    for name in ["llama", "mistral"] {
        let tokenizer = models::open(folder(name)).unwrap().tokenizer().unwrap();
        let expected = expected(name);
        for pair in expected["tokenizer"].as_array().unwrap() {
            let (text, want) = (pair[0].as_str().unwrap(), ids(&pair[1]));
            assert_eq!(tokenizer.encode(text).unwrap(), want, "{name}: {text:?}");
            // Characters outside the vocabulary are encoded as bytes.
            assert_eq!(tokenizer.decode(&want).unwrap(), text, "{name}");
        }
        let special = EncodeOptions { bos: Some(false), special: true, ..Default::default() };
        for pair in expected["special"].as_array().unwrap() {
            let text = pair[0].as_str().unwrap();
            assert_eq!(tokenizer.encode_with(text, special).unwrap(), ids(&pair[1]), "{name}: {text:?}");
        }
        assert_eq!(tokenizer.bos(), Some(0));
    }
    let llama = models::open(folder("llama")).unwrap().tokenizer().unwrap();
    // From tokenizer_config.json and generation_config.json.
    assert!(llama.is_end(llama.id("<|end|>").unwrap()) && llama.is_end(1) && !llama.is_end(0));
    assert!(llama.chat_template().unwrap().contains("add_generation_prompt"));
    assert!(models::open(folder("qwen2")).unwrap().tokenizer().is_err());
}

/// A copy of a folder with an option changed, removed at the end.
pub(crate) struct Copy(pub(crate) PathBuf);

impl Copy {
    pub(crate) fn new(name: &str, what: &str) -> Self {
        let to = std::env::temp_dir().join(format!("folder-{name}-{what}-{}", std::process::id()));
        copy_all(Path::new(&folder(name)), &to);
        Copy(to)
    }
    pub(crate) fn changed(name: &str, option: &str, value: Value) -> Self {
        Self::changed_in(name, "config.json", option, value)
    }
    pub(crate) fn changed_in(name: &str, file: &str, option: &str, value: Value) -> Self {
        let copy = Self::new(name, &option.replace('.', "-"));
        let path = copy.0.join(file);
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let at = option.split('.').fold(&mut config, |at, key| &mut at[key]);
        *at = value;
        std::fs::write(path, config.to_string()).unwrap();
        copy
    }
    pub(crate) fn refused(&self) -> String {
        match models::open(&self.0) {
            Err(error) => error.to_string(),
            Ok(model) => {
                Decoder::<f32, Cpu>::load(&Cpu::new(), &model, 16).err().expect("refused").to_string()
            }
        }
    }
}

pub(crate) fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if path.is_dir() {
            copy_all(&path, &to);
        } else {
            std::fs::copy(path, to).unwrap();
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_not_understood_is_an_error_that_names_it() {
    for (name, option, value) in [
        ("llama", "model_type", json!("mamba")),
        ("llama", "model_type", json!("gpt_neox")),
        ("llama", "architectures", json!(["LlamaForSequenceClassification"])),
        ("llama", "quantization_config", json!({"quant_method": "gptq"})),
        ("llama", "logit_scale", json!(0.5)),
        ("llama", "sliding_window", json!(8)),
        ("llama", "hidden_act", json!("gelu")),
        ("llama", "hidden_size", json!(null)),
        ("llama", "num_hidden_layers", json!("2")),
        ("llama", "partial_rotary_factor", json!(0.5)),
        ("llama", "rope_parameters.rope_type", json!("dynamic")),
        ("llama", "rope_parameters.factor", json!(null)),
        ("llama", "rope_parameters.new_factor", json!(2.0)),
        ("qwen3", "rope_parameters.mscale", json!(0.7)),
        ("qwen3", "use_sliding_window", json!(true)),
        ("qwen3", "layer_types", json!(["full_attention", "sliding_attention"])),
        ("qwen3moe", "norm_topk_prob", json!(false)),
        ("qwen3moe", "mlp_only_layers", json!([0])),
        ("qwen3moe", "decoder_sparse_step", json!(2)),
        ("gemma2", "sliding_window", json!(null)),
        ("gemma2", "query_pre_attn_scalar", json!(null)),
        ("gemma3", "_sliding_window_pattern", json!(4)),
        ("gemma3", "rope_parameters.sliding_attention.rope_type", json!("linear")),
        ("llama", "rope_parameters.rope_type", json!("longrope")),
        ("gemma3_images", "text_config.use_bidirectional_attention", json!(true)),
        ("gemma3_images", "text_config.model_type", json!("gemma2")),
        ("gemma3_images", "text_config", json!(null)),
        ("gemma3_images", "quantization_config", json!({"quant_method": "gptq"})),
        ("mistral3", "architectures", json!(["Mistral3ForCausalLM"])),
        ("phi3_long", "rope_parameters.long_factor", json!(null)),
        ("phi3_long", "rope_parameters.short_factor", json!([1.0, "2.0"])),
        ("phi3_long", "original_max_position_embeddings", json!(1)),
        ("gpt_oss", "swiglu_limit", json!(5.0)),
        ("gpt_oss", "quantization_config", json!({"quant_method": "gptq"})),
        ("gpt_oss", "layer_types", json!(["full_attention", "sliding_attention"])),
        ("gpt_oss", "experts_per_token", json!(3)),
        ("qwen3_next", "layer_types", json!(["linear_attention", "sliding_attention", "linear_attention"])),
        ("qwen3_next", "use_sliding_window", json!(true)),
        ("qwen3_next", "linear_num_key_heads", json!(3)),
        ("qwen3_next", "norm_topk_prob", json!(false)),
        ("qwen3_next", "shared_expert_intermediate_size", json!(null)),
        ("stablelm", "qk_layernorm", json!(true)),
        ("deepseek_v2", "topk_method", json!("noaux_tc")),
        ("deepseek_v2", "norm_topk_prob", json!(true)),
        ("deepseek_v2", "scoring_func", json!("sigmoid")),
        ("deepseek_v2", "rope_parameters.mscale", json!(1.0)),
        ("deepseek_v2", "n_group", json!(null)),
        ("deepseek_v3", "moe_layer_freq", json!(2)),
        ("deepseek_v3", "rope_interleave", json!(false)),
        ("deepseek_v3", "kv_lora_rank", json!(null)),
        ("deepseek_v3", "head_dim", json!(16)),
    ] {
        let message = Copy::changed(name, option, value.clone()).refused();
        let option = if option == "model_type" { value.as_str().unwrap() } else { option };
        assert!(message.contains(option), "{name}, {option} = {value}: {message}");
    }
    // Extents that differ from those of the tensors.
    let wider = Copy::changed("llama", "intermediate_size", json!(100)).refused();
    assert!(wider.contains("mlp.") && wider.contains("100"), "{wider}");
    let narrower = Copy::changed("deepseek_v3", "v_head_dim", json!(12)).refused();
    assert!(narrower.contains("kv_b_proj") && narrower.contains("12"), "{narrower}");
    let heads = Copy::changed("qwen3_next", "linear_value_head_dim", json!(12)).refused();
    assert!(heads.contains("in_proj_qkvz") && heads.contains("176"), "{heads}");
    let factors = Copy::changed("phi3_long", "rope_parameters.short_factor", json!([1.0])).refused();
    assert!(factors.contains("factors") && factors.contains('6'), "{factors}");
    let deeper = Copy::changed("llama", "num_hidden_layers", json!(3)).refused();
    assert!(deeper.contains("tensor model.layers.2."), "{deeper}");
    let untied = Copy::changed("qwen2", "tie_word_embeddings", json!(false)).refused();
    assert!(untied.contains("lm_head.weight"), "{untied}");
}

#[test]
fn older_files_say_the_same_in_other_words() {
    let config = |model: &Gguf| format!("{:?}", models::Config::new(model.metadata()).unwrap());
    for (name, old) in [
        (
            "llama",
            json!({"rope_theta": 10000.0, "torch_dtype": "float32", "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
                "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}),
        ),
        (
            "gemma3",
            json!({"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"type": "linear", "factor": 8.0}}),
        ),
        ("stablelm", json!({"rope_theta": 10000, "partial_rotary_factor": 0.25})),
    ] {
        let copy = Copy::changed(name, "rope_parameters", json!(null));
        let path = copy.0.join("config.json");
        let mut all: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for (key, value) in old.as_object().unwrap() {
            all[key] = value.clone();
        }
        std::fs::write(path, all.to_string()).unwrap();
        let model = models::open(&copy.0).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(config(&model), config(&models::open(folder(name)).unwrap()), "{name}");
    }
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let remove = |file: &str| {
        let copy = Copy::new("llama", file);
        std::fs::remove_file(copy.0.join(file)).unwrap();
        copy.refused()
    };
    for file in ["config.json", "model-00002-of-00003.safetensors"] {
        let message = remove(file);
        assert!(message.contains(file), "{message}");
    }
    let weights = remove("model.safetensors.index.json");
    assert!(weights.contains("model.safetensors"), "{weights}");

    let cut = Copy::new("mistral", "cut");
    let path = cut.0.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(cut.refused().contains("model.safetensors"), "{}", cut.refused());

    let rename = |name: &str, from: &str, to: &str| {
        let copy = Copy::new(name, to);
        for entry in std::fs::read_dir(&copy.0).unwrap() {
            replace(&entry.unwrap().path(), from, to);
        }
        copy.refused()
    };
    // Names of the same length, so that the header stays whole.
    let unknown = rename("mistral", "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.xx_proj.weight");
    assert!(unknown.contains("mlp.xx_proj.weight"), "{unknown}");
    let missing = rename("mixtral", "experts.2.w3.weight", "experts.7.w3.weight");
    assert!(missing.contains("tensor model.layers.") && missing.contains("experts.2.w3.weight"), "{missing}");
    let type_ = rename("mistral", "\"F16\"", "\"I16\"");
    assert!(type_.contains("I16"), "{type_}");

    let stray = Copy::new("llama", "stray");
    replace(&stray.0.join("model.safetensors.index.json"), "lm_head.weight", "lm_tail.weight");
    assert!(stray.refused().contains("lm_tail.weight"), "{}", stray.refused());
    let outside = Copy::new("llama", "outside");
    replace(&outside.0.join("model.safetensors.index.json"), "\"model-00003-", "\"../el-00003-");
    assert!(outside.refused().contains("a file's name"), "{}", outside.refused());
}

/// Replaces bytes by others of the same number.
pub(crate) fn replace(path: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<usize> = bytes
        .windows(from.len())
        .enumerate()
        .filter(|(_, w)| *w == from.as_bytes())
        .map(|(i, _)| i)
        .collect();
    places.iter().for_each(|at| bytes[*at..at + to.len()].copy_from_slice(to.as_bytes()));
    std::fs::write(path, bytes).unwrap();
}

/// Published folders of GLM 4.5 and DeepSeek V3 have a layer after the last one that predicts further tokens.
#[test]
fn layers_that_predict_further_tokens_are_passed_over() {
    for name in ["glm4_moe", "deepseek_v3"] {
        let copy = Copy::changed(name, "num_nextn_predict_layers", json!(1));
        let path = copy.0.join("config.json");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let layers = config["num_hidden_layers"].as_u64().unwrap() - 1;
        config["num_hidden_layers"] = json!(layers);
        std::fs::write(&path, config.to_string()).unwrap();
        let model = models::open(&copy.0).unwrap_or_else(|e| panic!("{name}: {e}"));
        let decoder = Decoder::<f32, Cpu>::load(&Cpu::new(), &model, 8).unwrap();
        assert_eq!(decoder.config().layers as u64, layers);
        config["num_nextn_predict_layers"] = json!(0);
        std::fs::write(&path, config.to_string()).unwrap();
        assert!(copy.refused().contains(&format!("layers.{layers}.")), "{name}: {}", copy.refused());
    }
}

#[test]
fn a_batch_is_its_texts() {
    for name in ["llama", "gemma3", "qwen3moe", "qwen3_next"] {
        check_batch(&Cpu::new(), &models::open(folder(name)).unwrap(), name);
    }
}
