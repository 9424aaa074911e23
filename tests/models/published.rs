//! `config.json` as published with the most used models of the families here. `tests/data/configs.json` says where each was found;
//! `tests/data/published.json` has the extents of small models and the logits that `transformers` computes from them
//! (`tools/generate/published-logits.py`).
use rocm_ops::model::Transformer;
use rocm_ops::models::{self, Decoder, OpenOptions};
use rocm_ops::{Cpu, Reference};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Options of which a small model may have other values than the published one: everything else stays as published.
const EXTENTS: [&str; 31] = [
    "first_k_dense_replace",
    "head_dim",
    "hidden_size",
    "image_size",
    "intermediate_size",
    "kv_lora_rank",
    "layer_types",
    "linear_key_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_value_head_dim",
    "long_factor",
    "moe_intermediate_size",
    "n_group",
    "n_routed_experts",
    "num_attention_heads",
    "num_experts",
    "num_experts_per_tok",
    "experts_per_token",
    "num_hidden_layers",
    "num_key_value_heads",
    "num_local_experts",
    "patch_size",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "shared_expert_intermediate_size",
    "short_factor",
    "topk_group",
    "v_head_dim",
    "vocab_size",
];

/// Windows are shortened as well, because prompts are short.
const WINDOWS: [&str; 2] = ["sliding_window", "sliding_window_size"];

/// A published configuration with the extents of a small model.
fn reduced(published: &Value, extents: &Value) -> Value {
    let mut config = published.clone();
    for (path, value) in extents.as_object().unwrap() {
        let option = path.rsplit('.').next().unwrap();
        assert!(EXTENTS.contains(&option) || WINDOWS.contains(&option), "{path}");
        let at = path.split('.').fold(&mut config, |at, key| &mut at[key]);
        *at = value.clone();
    }
    config
}

/// Random bits: SplitMix64, seeded with the FNV-1a hash of a tensor's name.
fn noise(name: &str) -> impl Iterator<Item = u64> {
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    })
}

/// A tensor's type and bytes, as `values` of the script makes them.
fn values(name: &str, shape: &[u64]) -> (&'static str, Vec<u8>) {
    let bits = noise(name).take(shape.iter().product::<u64>() as usize);
    if name.ends_with("_blocks") {
        return ("U8", bits.map(|bits| (bits >> 56) as u8).collect());
    }
    if name.ends_with("_scales") {
        return ("U8", bits.map(|bits| 121 + (bits >> 62) as u8).collect());
    }
    let last = shape[shape.len() - 1];
    let matrix = 1.5 * 0.5_f64.powi((u64::BITS - last.leading_zeros()) as i32 / 2 - 1);
    let (centre, scale) = match name {
        _ if name.contains("embed") || name.ends_with("sinks") => (0.0, 1.0),
        _ if name.ends_with("A_log") => (-1.5, 1.0),
        _ if shape.len() > 1 => (0.0, matrix),
        _ if name.contains("norm") && name.ends_with("weight") => (1.0, 0.25),
        _ => (0.0, 0.25),
    };
    let value = |bits: u64| centre + scale * ((bits >> 53) as f64 / 1024.0 - 1.0);
    ("F32", bits.flat_map(|bits| (value(bits) as f32).to_le_bytes()).collect())
}

/// A small model's folder, removed at the end.
struct Small(PathBuf);

impl Small {
    fn new(name: &str, config: &Value, shapes: &Value) -> Self {
        let to =
            std::env::temp_dir().join(format!("published-{}-{}", name.replace('/', "-"), std::process::id()));
        std::fs::create_dir_all(&to).unwrap();
        let (mut header, mut data) = (Map::new(), Vec::new());
        for tensor in shapes.as_array().unwrap() {
            let (name, shape) = tensor.as_array().unwrap().split_first().unwrap();
            let extents: Vec<u64> = shape.iter().map(|extent| extent.as_u64().unwrap()).collect();
            let (name, start) = (name.as_str().unwrap(), data.len());
            let (dtype, bytes) = values(name, &extents);
            data.extend(bytes);
            let about = json!({"dtype": dtype, "shape": extents, "data_offsets": [start, data.len()]});
            header.insert(name.to_owned(), about);
        }
        let header = Value::from(header).to_string();
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
        std::fs::write(to.join("model.safetensors"), file).unwrap();
        std::fs::write(to.join("config.json"), config.to_string()).unwrap();
        Small(to)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn data(name: &str) -> Value {
    let path = format!("{}/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The largest normalized mean squared error of the logits at a position.
fn error<B: Transformer<f32>>(
    b: &B,
    folder: &Small,
    expected: &Value,
    wanted: &Value,
) -> Result<f64, String> {
    let model = models::open(&folder.0).map_err(|e| e.to_string())?;
    assert_eq!(models::warnings(&model), [""; 0], "{}", folder.0.display());
    let decoder = Decoder::<f32, B>::load(b, &model, 16).map_err(|e| e.to_string())?;
    let array = |value: &Value| value.as_array().unwrap().clone();
    let tokens: Vec<u32> = array(&expected["tokens"]).iter().map(|id| id.as_u64().unwrap() as u32).collect();
    let logits = decoder.forward_all(b, &mut decoder.state(b, 16).unwrap(), &tokens).unwrap();
    let errors = array(&expected["positions"])
        .iter()
        .zip(array(wanted))
        .map(|(at, wanted)| {
            let wanted: Vec<f64> = array(&wanted).iter().map(|logit| logit.as_f64().unwrap()).collect();
            let got = &logits[at.as_u64().unwrap() as usize * wanted.len()..][..wanted.len()];
            let off: f64 = got.iter().zip(&wanted).map(|(got, want)| (f64::from(*got) - want).powi(2)).sum();
            off / wanted.iter().map(|want| want * want).sum::<f64>()
        })
        .collect::<Vec<_>>();
    Ok(errors.into_iter().fold(0.0, f64::max))
}

#[test]
fn published_configurations_give_the_logits_of_transformers() {
    let (all, expected) = (data("configs"), data("published"));
    let (all, small) = (all.as_array().unwrap(), expected["models"].as_array().unwrap());
    assert!(all.len() >= 43 && all.len() == small.len());
    let mut wrong = Vec::new();
    for (published, small) in all.iter().zip(small) {
        let name = published["model"].as_str().unwrap();
        assert_eq!(small["model"], name);
        let shapes = &expected["shapes"][small["shapes"].as_u64().unwrap() as usize];
        let mut config = reduced(&published["config"], &small["extents"]);
        let stored = config["quantization_config"]["quant_method"].as_str().unwrap_or("").to_owned();
        if stored == "fp8" {
            let refused = models::open(&Small::new(name, &config, shapes).0).unwrap_err().to_string();
            assert!(refused.contains("option `quantization_config`"), "{name}: {refused}");
            config["quantization_config"] = Value::Null; // as after a conversion
        }
        let folder = Small::new(name, &config, shapes);
        // Blocks are multiplied with activations in 8 bits, but not by the reference.
        let error = match stored == "mxfp4" {
            true => error(&Reference::new(), &folder, &expected, &small["logits"]),
            false => error(&Cpu::new(), &folder, &expected, &small["logits"]),
        };
        if !matches!(error, Ok(error) if error <= 1e-9) {
            wrong.push((name, error));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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
        ("starcoder2", "activation_function", json!("gelu"), json!("relu")),
        ("starcoder2", "scale_attn_weights", json!(true), json!(false)),
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
