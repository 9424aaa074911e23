//! Encoders in folders as `sentence-transformers` writes them.
use crate::folders::{Copy, replace};
use ops_tests::bundled::quantized;
use ops_tests::encoders::{ENCODERS, check, check_model, expected, folder};
use rocm_ops::gguf::{Gguf, Metadata, Tokenizer, Writer};
use rocm_ops::models::{self, Decoder, Encoder, Pooling};
use rocm_ops::{Checked, Cpu, Reference, f16};
use serde_json::{Value, json};
use std::path::Path;

mod kinds;

#[test]
fn embeddings_are_those_of_float64_on_the_cpu() {
    ENCODERS.iter().for_each(|name| check(&Cpu::new(), name));
    let known = ["bert", "xlm-roberta", "nomic_bert", "modernbert", "jina_embeddings_v3"];
    assert_eq!(models::encoder_families().collect::<Vec<_>>(), known);
}

#[test]
fn embeddings_are_those_of_float64_on_the_reference() {
    ENCODERS.iter().for_each(|name| check(&Reference::new(), name));
}

#[test]
fn embeddings_are_those_of_float64_when_every_op_is_checked() {
    let checked = Checked::new(Cpu::new(), Reference::new());
    ENCODERS.iter().for_each(|name| check(&checked, name));
    assert!(checked.calls() > 100);
}

/// Activations in f16 change an embedding only by rounding.
#[test]
fn embeddings_in_f16_are_close() {
    let cpu = Cpu::new();
    let encoder = Encoder::<f16, Cpu>::load(&cpu, &models::open(folder("bert")).unwrap()).unwrap();
    let want = expected("bert");
    let texts: Vec<&[u32]> = want.ids.iter().map(Vec::as_slice).collect();
    for (got, want) in encoder.embed(&cpu, &texts).unwrap().iter().zip(&want.embeddings) {
        let cosine: f64 = got.iter().zip(want).map(|(a, b)| f64::from(*a) * b).sum();
        assert!(cosine > 0.9999, "{cosine}");
    }
}

fn tokenizer(name: &str) -> Tokenizer {
    models::open(folder(name)).unwrap().tokenizer().unwrap()
}

#[test]
fn texts_have_the_tokens_of_tokenizer_json() {
    for name in ENCODERS {
        let (tokenizer, want) = (tokenizer(name), expected(name));
        let model = models::open(folder(name)).unwrap();
        let config = models::EncoderConfig::new(model.metadata()).unwrap();
        let mut cut = 0;
        for (text, want) in want.texts.iter().zip(&want.ids) {
            let text = if config.lower_case { text.to_lowercase() } else { text.clone() };
            let mut ids = tokenizer.encode(&text).unwrap();
            cut += usize::from(models::truncate(&mut ids, config.max_tokens));
            assert_eq!(ids, *want, "{name}: {text:?}");
        }
        assert_eq!(cut, 1, "{name}");
        for (ids, text) in want.ids.iter().zip(&want.decoded) {
            assert_eq!(tokenizer.decode(ids).unwrap(), *text, "{name}");
        }
    }
}

#[test]
fn the_files_of_sentence_transformers_say_what_becomes_of_the_tokens() {
    let config = |path: &Path| models::EncoderConfig::new(models::open(path).unwrap().metadata()).unwrap();
    let bert = config(Path::new(&folder("bert")));
    assert_eq!((bert.pooling, bert.normalize, bert.max_tokens), (Pooling::Mean, true, 24));
    let masked = config(Path::new(&folder("bert_masked")));
    assert_eq!((masked.pooling, masked.normalize, masked.max_tokens), (Pooling::First, false, 64));
    assert!(masked.lower_case && !bert.lower_case);
    // Without these files: the mean, not normalised.
    let bare = Copy::new("bert", "bare");
    std::fs::remove_file(bare.0.join("modules.json")).unwrap();
    std::fs::remove_file(bare.0.join("sentence_bert_config.json")).unwrap();
    let bare = config(&bare.0);
    assert_eq!((bare.pooling, bare.normalize, bare.max_tokens), (Pooling::Mean, false, 64));
}

fn refused(copy: &Copy) -> String {
    match models::open(&copy.0) {
        Err(error) => error.to_string(),
        Ok(model) => Encoder::<f32, Cpu>::load(&Cpu::new(), &model).err().expect("refused").to_string(),
    }
}

#[test]
fn what_is_not_understood_is_an_error_that_names_it() {
    for (file, option, value, named) in [
        ("config.json", "model_type", json!("mpnet"), "mpnet"),
        (
            "config.json",
            "architectures",
            json!(["BertForSequenceClassification"]),
            "BertForSequenceClassification",
        ),
        ("config.json", "hidden_act", json!("silu"), "silu"),
        ("config.json", "hidden_act", json!(null), "hidden_act"),
        ("config.json", "position_embedding_type", json!("relative_key"), "relative_key"),
        ("config.json", "is_decoder", json!(true), "is_decoder"),
        ("config.json", "quantization_config", json!({"quant_method": "gptq"}), "quantization_config"),
        ("config.json", "num_attention_heads", json!(5), "option `num_attention_heads`"),
        ("config.json", "intermediate_size", json!(100), "intermediate.dense"),
        ("config.json", "num_hidden_layers", json!(3), "tensor encoder.layer.2."),
        ("config.json", "num_hidden_layers", json!(1), "encoder.layer.1."),
        ("config.json", "type_vocab_size", json!(3), "token_type_embeddings"),
        ("sentence_bert_config.json", "max_seq_length", json!(1), "max_sequence_length"),
        ("sentence_bert_config.json", "prefix", json!("query: "), "prefix"),
        (
            "1_Pooling/config.json",
            "pooling_mode_cls_token",
            json!(true),
            "pooling_mode_mean_tokens and pooling_mode_cls_token",
        ),
        ("1_Pooling/config.json", "pooling_mode_mean_tokens", json!(false), "got none, wanted one of"),
        ("1_Pooling/config.json", "include_prompt", json!(false), "include_prompt"),
        ("1_Pooling/config.json", "pooling_mode_max_tokens", json!(true), "pooling_mode_max_tokens"),
        ("1_Pooling/config.json", "word_embedding_dimension", json!(65), "65"),
    ] {
        let message = refused(&Copy::changed_in("bert", file, option, value));
        assert!(message.contains(named), "{file}, {option}: {message}");
    }
}

#[test]
fn modules_that_this_program_does_not_have_are_refused() {
    let modules = Copy::new("bert", "modules");
    let path = modules.0.join("modules.json");
    let text = std::fs::read_to_string(&path).unwrap();
    for (from, to, named) in [
        ("models.Normalize", "models.LSTM", "LSTM"),
        ("models.Normalize", "models.Dense", "2_Normalize/config.json"),
        ("\"path\": \"\"", "\"path\": \"0_Transformer\"", "0_Transformer"),
        ("1_Pooling", "../bert/1_Pooling", "../bert/1_Pooling"),
        ("[", "", "JSON"),
    ] {
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let message = refused(&modules);
        assert!(message.contains(named), "{message}");
    }
    let prompted = Copy::new("bert", "prompted");
    let prompts = |default: &str| {
        let own = json!({"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": default});
        std::fs::write(prompted.0.join("config_sentence_transformers.json"), own.to_string()).unwrap();
    };
    prompts("question");
    let message = refused(&prompted);
    assert!(message.contains("default_prompt_name"), "{message}");
    prompts("query");
    let config = models::EncoderConfig::new(models::open(&prompted.0).unwrap().metadata()).unwrap();
    let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    assert_eq!(config.prompts, [pair("document", ""), pair("query", "query: ")]);
    assert_eq!(config.default_prompt.as_deref(), Some("query"));
}

#[test]
fn tensors_that_are_missing_or_unknown_are_named() {
    // Names of the same length, so that the header stays whole.
    for (from, to, named) in [
        (
            "encoder.layer.1.attention.self.key.bias",
            "encoder.layer.1.attention.self.xey.bias",
            "self.xey.bias",
        ),
        (
            "encoder.layer.0.attention.self.key.bias",
            "encoder.layer.2.attention.self.key.bias",
            "tensor encoder.layer.0.attention.self.key.bias",
        ),
        ("embeddings.LayerNorm.weight", "pooler.eddings.LayerNweight", "tensor embeddings.LayerNorm.weight"),
    ] {
        let copy = Copy::new("bert", "renamed");
        replace(&copy.0.join("model.safetensors"), from, to);
        let message = refused(&copy);
        assert!(message.contains(named), "{message}");
    }
}

#[test]
fn a_text_must_have_tokens_and_fit() {
    let cpu = Cpu::new();
    let encoder = Encoder::<f32, Cpu>::load(&cpu, &models::open(folder("bert")).unwrap()).unwrap();
    assert!(encoder.embed(&cpu, &[]).unwrap().is_empty());
    for text in [&[][..], &[7; 25]] {
        let message = encoder.embed(&cpu, &[&[2, 3], text]).unwrap_err().to_string();
        assert!(message.contains(&format!("{} tokens", text.len())) && message.contains("24"), "{message}");
    }
    assert!(encoder.embed(&cpu, &[&[2, 999, 3]]).is_err(), "no such token");
}

#[test]
fn an_encoder_is_not_a_decoder() {
    let (cpu, bert) = (Cpu::new(), models::open(folder("bert")).unwrap());
    let message = Decoder::<f32, Cpu>::load(&cpu, &bert, 8).err().expect("refused").to_string();
    assert!(message.contains("\"bert\""), "{message}");
    let llama = models::open(folder("llama")).unwrap();
    let message = Encoder::<f32, Cpu>::load(&cpu, &llama).err().expect("refused").to_string();
    assert!(message.contains("\"llama\"") && message.contains("bert"), "{message}");
}

/// The encoder of the folder `bert` as a GGUF file of it: keys, pieces of words and tensors as llama.cpp's converter writes them.
fn converted(change: Option<(&str, u32)>) -> Vec<u8> {
    let folder = models::open(folder("bert")).unwrap();
    let text = folder.metadata().str("tokenizer.huggingface.json").unwrap();
    let tokenizer: Value = serde_json::from_str(text).unwrap();
    let mut tokens: Vec<(u64, &String)> = tokenizer["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(text, id)| (id.as_u64().unwrap(), text))
        .collect();
    tokens.sort_unstable();
    let piece = |text: &str| match text.strip_prefix("##") {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ if text.len() > 2 && text.starts_with('[') => text.to_owned(),
        _ => format!("\u{2581}{text}"),
    };
    let pieces: Vec<String> = tokens.iter().map(|(_, text)| piece(text)).collect();
    let kinds: Vec<i32> =
        pieces.iter().map(|text| if text.starts_with('[') && text.len() > 2 { 3 } else { 1 }).collect();
    let mut meta = Metadata::new();
    let mut set = |key: &str, value: rocm_ops::gguf::Value| {
        meta.set(key, value).unwrap();
    };
    set("general.architecture", "bert".into());
    for (key, value) in [
        ("context_length", 24_u32),
        ("embedding_length", 64),
        ("feed_forward_length", 96),
        ("block_count", 2),
        ("attention.head_count", 4),
        ("pooling_type", 1),
    ] {
        set(&format!("bert.{key}"), value.into());
    }
    set("bert.attention.layer_norm_epsilon", 1e-12_f32.into());
    set("bert.attention.causal", false.into());
    set("tokenizer.ggml.model", "bert".into());
    set("tokenizer.ggml.pre", "jina-v2-en".into());
    set("tokenizer.ggml.token_type_count", 2_u32.into());
    set("tokenizer.ggml.tokens", pieces.as_slice().into());
    set("tokenizer.ggml.token_type", kinds.into());
    for (key, id) in [("padding", 0_u32), ("unknown", 1), ("cls", 2), ("seperator", 3), ("mask", 4)] {
        set(&format!("tokenizer.ggml.{key}_token_id"), id.into());
    }
    if let Some((key, value)) = change {
        meta.set(key, value).unwrap();
    }
    let mut writer = Writer::with_metadata(meta);
    let rows = |name: &str, dims: &[usize]| {
        if name == "position_embd.weight" { vec![24, dims[1]] } else { dims.to_vec() }
    };
    for tensor in folder.tensors() {
        writer.tensor(tensor.name(), tensor.ggml_type(), &rows(tensor.name(), tensor.dims())).unwrap();
    }
    let mut body = writer.write_to(Vec::new()).unwrap();
    for tensor in folder.tensors() {
        let bytes = tensor.bytes().unwrap();
        let kept = if tensor.name() == "position_embd.weight" { bytes.len() / 64 * 24 } else { bytes.len() };
        body.write(tensor.name(), &bytes[..kept]).unwrap();
    }
    body.finish().unwrap()
}

#[test]
fn a_gguf_file_gives_the_embeddings_of_the_folder() {
    let model = Gguf::from_bytes(converted(None)).unwrap();
    let config = models::EncoderConfig::new(model.metadata()).unwrap();
    assert_eq!((config.pooling, config.normalize, config.max_tokens), (Pooling::Mean, true, 24));
    check_model(&Cpu::new(), "bert", &model);
    let (tokenizer, want) = (model.tokenizer().unwrap(), expected("bert"));
    for (text, want) in want.texts.iter().zip(&want.ids) {
        let mut ids = tokenizer.encode(text).unwrap();
        models::truncate(&mut ids, config.max_tokens);
        assert_eq!(ids, *want, "{text:?}");
    }
}

/// Quantization changes an embedding a little; the matrices of a layer may then have unlike types.
#[test]
fn a_quantized_gguf_file_is_close() {
    let (cpu, want) = (Cpu::new(), expected("bert"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bert.gguf");
    std::fs::write(&path, converted(None)).unwrap();
    for (mixture, least) in [("q8_0", 0.999), ("q4_k_m", 0.9)] {
        let model = Gguf::from_bytes(quantized(path.to_str().unwrap(), mixture)).unwrap();
        let encoder = Encoder::<f32, Cpu>::load(&cpu, &model).unwrap();
        let texts: Vec<&[u32]> = want.ids.iter().map(Vec::as_slice).collect();
        for (got, want) in encoder.embed(&cpu, &texts).unwrap().iter().zip(&want.embeddings) {
            let cosine: f64 = got.iter().zip(want).map(|(a, b)| f64::from(*a) * b).sum();
            assert!(cosine > least, "{mixture}: {cosine}");
        }
    }
}

#[test]
fn what_an_encoder_in_a_gguf_file_needs_is_named() {
    for (key, value, named) in [
        ("bert.pooling_type", 4_u32, "bert.pooling_type"),
        ("bert.attention.head_count", 5, "bert.attention.head_count"),
        ("tokenizer.ggml.token_type_count", 3, "token_types.weight"),
    ] {
        let model = Gguf::from_bytes(converted(Some((key, value)))).unwrap();
        let message = Encoder::<f32, Cpu>::load(&Cpu::new(), &model).err().expect("refused").to_string();
        assert!(message.contains(named), "{key}: {message}");
    }
}
