//! What real files of Gemma 3n have, and the small ones do not.
use super::folders::{Copy, folder};
use ops_tests::families::{self, check_model, numbers};
use ops_tests::rewritten::{stored, written};
use rocm_ops::Cpu;
use rocm_ops::gguf::{Array, GgmlType, Gguf, Value};
use rocm_ops::models::{self, Decoder};
use serde_json::json;

const NAME: &str = "gemma3n-f16";

fn file() -> Gguf {
    Gguf::open(format!("{}/{NAME}.gguf", families::folder())).unwrap()
}

/// The last layers use keys and values of others, and have tensors for their own.
#[test]
fn keys_that_nothing_uses_are_passed_over() {
    let model = file();
    let mut all = stored(&model);
    for part in ["attn_k.weight", "attn_v.weight", "attn_k_norm.weight"] {
        assert!(model.find(&format!("blk.6.{part}")).is_none());
        let (_, ty, dims, bytes) = all.iter().find(|(name, ..)| *name == format!("blk.4.{part}")).unwrap();
        let own = (ty.to_owned(), dims.clone(), bytes.iter().map(|byte| byte ^ 1).collect::<Vec<u8>>());
        all.extend([5, 6].map(|layer| (format!("blk.{layer}.{part}"), own.0, own.1.clone(), own.2.clone())));
    }
    let model = written(model.metadata().clone(), &all);
    check_model(&Cpu::new(), (NAME, &model), &numbers(NAME), 3, 5);
    // Those of a layer whose keys are used are not.
    all.push(("blk.5.attn_v.bias".into(), GgmlType::F32, vec![16], vec![0; 64]));
    let error = Decoder::<f32, Cpu>::load(&Cpu::new(), &written(model.metadata().clone(), &all), 8);
    assert!(error.err().unwrap().to_string().contains("blk.5.attn_v.bias"));
}

/// Tokens that stand for images and sounds, at the end of the vocabulary, have no embeddings for each layer.
#[test]
fn tokens_without_embeddings_for_layers_are_errors() {
    const ROWS: usize = 351;
    let model = file();
    let mut all = stored(&model);
    let (_, _, dims, bytes) =
        all.iter_mut().find(|(name, ..)| name == "per_layer_token_embd.weight").unwrap();
    assert_eq!(dims[0], ROWS + 1);
    bytes.truncate(bytes.len() / dims[0] * ROWS);
    dims[0] = ROWS;
    let (cpu, shorter) = (Cpu::new(), written(model.metadata().clone(), &all));
    let [whole, shorter] = [&model, &shorter].map(|model| Decoder::<f32, Cpu>::load(&cpu, model, 8).unwrap());
    let tokens = [2, 150, 350];
    let logits = [&whole, &shorter]
        .map(|model| model.forward(&cpu, &mut model.state(&cpu, 8).unwrap(), &tokens).unwrap());
    assert_eq!(logits[0], logits[1]);
    let last =
        |model: &Decoder<f32, Cpu>| model.forward(&cpu, &mut model.state(&cpu, 8).unwrap(), &[351]).is_ok();
    assert!(last(&whole) && !last(&shorter));
}

/// The options of the published models, whose text model has the form of older files.
#[test]
fn published_options_are_read() {
    let copy = Copy::new("gemma3n", "published");
    let path = copy.0.join("config.json");
    let mut text: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for (option, value) in [
        ("rope_parameters", json!(null)),
        ("rope_scaling", json!(null)),
        ("rope_theta", json!(1e6)),
        ("rope_local_base_freq", json!(1e4)),
        ("query_pre_attn_scalar", json!(256)),
        ("altup_lr_multiplier", json!(1.0)),
        ("intermediate_size", json!(48)),
    ] {
        text[option] = value;
    }
    let whole = json!({
        "model_type": "gemma3n", "architectures": ["Gemma3nForConditionalGeneration"], "text_config": text,
        "audio_config": {"hidden_size": 1536}, "vision_config": {"hidden_size": 2048}, "audio_soft_tokens_per_image": 188,
        "audio_token_id": 262_273, "boa_token_id": 256_000, "boi_token_id": 255_999, "eoa_token_id": 262_272,
        "eoi_token_id": 262_144, "image_token_id": 262_145, "vision_soft_tokens_per_image": 256,
        "eos_token_id": [1, 106], "initializer_range": 0.02,
    });
    std::fs::write(&path, whole.to_string()).unwrap();
    let model = models::open(&copy.0).unwrap();
    let path = format!("{}/expected.json", folder("gemma3n"));
    check_model(&Cpu::new(), ("gemma3n", &model), &path, 3, 5);
}

#[test]
fn what_is_not_understood_is_an_error_that_names_it() {
    for (option, value, named) in [
        ("altup_active_idx", json!(1), "gemma3n.altup.active_idx"),
        ("altup_num_inputs", json!(1), "gemma3n.altup.num_inputs"),
        ("altup_num_inputs", json!(3), "altup_proj"),
        ("altup_num_inputs", json!(null), "option `altup_num_inputs`"),
        ("altup_correct_scale", json!(false), "option `altup_correct_scale`"),
        ("hidden_size_per_layer_input", json!(0), "gemma3n.embedding_length_per_layer_input"),
        ("intermediate_size", json!([48, 48]), "option `intermediate_size`"),
        ("activation_sparsity_pattern", json!([0.9, "0.9"]), "option `activation_sparsity_pattern`"),
        ("activation_sparsity_pattern", json!([0.9]), "gemma3n.activation_sparsity_scale"),
        ("layer_types", json!(null), "option `layer_types`"),
    ] {
        let message = Copy::changed("gemma3n", option, value.clone()).refused();
        assert!(message.contains(named), "{option} = {value}: {message}");
    }
    for (key, value) in [
        ("altup.num_inputs", Value::from(1_u32)),
        ("altup.active_idx", Value::from(2_u32)),
        ("embedding_length_per_layer_input", Value::from(0_u32)),
        ("activation_sparsity_scale", Value::from(Array::F32([1.0, f32::NAN].into()))),
        ("activation_sparsity_scale", Value::from(Array::F32([f32::INFINITY; 7].into()))),
        ("attention.shared_kv_layers", Value::from(6_u32)),
    ] {
        let mut metadata = file().metadata().clone();
        metadata.set(format!("gemma3n.{key}"), value).unwrap();
        let message = models::Config::new(&metadata).unwrap_err().to_string();
        let key = if key.contains("shared") { "sliding_window_pattern" } else { key };
        assert!(message.contains(key), "{key}: {message}");
    }
    // Another family has none of it.
    let mut metadata =
        Gguf::open(format!("{}/gemma4_e-f16.gguf", families::folder())).unwrap().metadata().clone();
    metadata.set("gemma4.altup.num_inputs", 4_u32).unwrap();
    assert!(models::Config::new(&metadata).unwrap_err().to_string().contains("altup.num_inputs"));
}
