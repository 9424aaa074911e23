//! Files that are not what they should be, and what is said about them.
use crate::folders::{Copy, folder};
use rocm_ops::Cpu;
use rocm_ops::gguf::{GgmlType, Gguf, Metadata, Writer};
use rocm_ops::models::{self, Decoder, Encoder, EncoderConfig};
use serde_json::{Value, json};

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123456\n";

fn refused(copy: &Copy) -> String {
    match models::open(&copy.0) {
        Err(error) => error.to_string(),
        Ok(model) => Decoder::<f32, _>::load(&Cpu::new(), &model, 16).err().expect("refused").to_string(),
    }
}

#[test]
fn a_file_of_another_kind_is_called_what_it_is() {
    for file in
        ["config.json", "tokenizer.json", "generation_config.json", "model-00002-of-00003.safetensors"]
    {
        let copy = Copy::new("llama", &format!("pointer-{file}"));
        std::fs::write(copy.0.join(file), POINTER).unwrap();
        let message = refused(&copy);
        assert!(
            message.contains(file) && message.contains("Git LFS") && message.contains("git lfs pull"),
            "{message}"
        );
    }
    for (name, mark) in [("utf-8", &b"\xef\xbb\xbf{}"[..]), ("utf-16", &b"\xff\xfe{\0}\0"[..])] {
        let copy = Copy::new("llama", name);
        std::fs::write(copy.0.join("config.json"), mark).unwrap();
        let message = refused(&copy);
        assert!(message.contains("config.json") && message.contains("byte order mark"), "{message}");
    }
    let page = Copy::new("llama", "page");
    std::fs::write(page.0.join("config.json"), "<!doctype html><html></html>").unwrap();
    assert!(refused(&page).contains("HTML"), "{}", refused(&page));
    let path = std::env::temp_dir().join(format!("no-model-{}", std::process::id()));
    for (bytes, kind) in [
        (POINTER.as_bytes(), "Git LFS"),
        (&b"PK\x03\x04...."[..], "ZIP"),
        (&b"\x80\x02}q"[..], "pickle"),
        (&b"tjgg\x01\0\0\0"[..], "GGML"),
        (&b"\x40\0\0\0\0\0\0\0{\"a\":"[..], "safetensors"),
        (&b" {\"model_type\": \"llama\"}"[..], "JSON"),
        (&b"<html>"[..], "HTML"),
        (&b""[..], "empty"),
        (&b"some text"[..], "some"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        for message in [models::open(&path).unwrap_err(), models::files(&path).unwrap_err()] {
            let message = message.to_string();
            assert!(message.contains(path.to_str().unwrap()) && message.contains(kind), "{message}");
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn errors_of_folders_speak_of_the_folder() {
    for (name, option, value, words) in [
        ("llama", "num_key_value_heads", json!(3), &["config.json", "option `num_key_value_heads`"][..]),
        ("llama", "num_hidden_layers", json!(0), &["config.json", "option `num_hidden_layers`"][..]),
        ("qwen3moe", "num_experts_per_tok", json!(9), &["config.json", "option `num_experts_per_tok`"][..]),
        ("llama", "intermediate_size", json!(100), &["safetensors", "tensor model.layers.0.mlp.", "100"][..]),
        (
            "gemma3",
            "vocab_size",
            json!(321),
            &["safetensors", "model.embed_tokens.weight", "321", "`vocab_size`"][..],
        ),
        ("llama", "vocab_size", json!(319), &["safetensors", "319", "`vocab_size`"][..]),
    ] {
        let message = refused(&Copy::changed(name, option, value.clone()));
        assert!(words.iter().all(|word| message.contains(word)), "{name}, {option} = {value}: {message}");
        assert!(!message.contains("blk.") && !message.contains("metadata key"), "{message}");
    }
    let encoder = Copy::changed("bert", "num_attention_heads", json!(5));
    let message = models::open(&encoder.0).unwrap_err().to_string();
    assert!(message.contains("option `num_attention_heads`"), "{message}");
}

/// The tokenizer of a model that cannot run does not matter.
#[test]
fn the_architecture_is_judged_first() {
    let copy = Copy::changed("llama", "model_type", json!("mamba"));
    std::fs::write(copy.0.join("tokenizer_config.json"), "{").unwrap();
    assert!(refused(&copy).contains("\"mamba\" is not supported"), "{}", refused(&copy));
}

#[test]
fn tied_embeddings_may_be_said_at_either_place() {
    // The fixture has no separate output matrix.
    for (top, text) in [(json!(true), json!(false)), (Value::Null, json!(true)), (json!(false), json!(true))]
    {
        let copy = Copy::changed("gemma3_images", "tie_word_embeddings", top);
        let path = copy.0.join("config.json");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        config["text_config"]["tie_word_embeddings"] = text;
        std::fs::write(path, config.to_string()).unwrap();
        Decoder::<f32, _>::load(&Cpu::new(), &models::open(&copy.0).unwrap(), 16).unwrap();
    }
}

/// The post-processor of `tokenizer.json` decides, as in `transformers`.
#[test]
fn add_bos_token_takes_nothing_away() {
    let ids =
        |folder: &std::path::Path| models::open(folder).unwrap().tokenizer().unwrap().encode("a b").unwrap();
    for (name, add) in [("bert", false), ("llama", false)] {
        let copy = Copy::changed_in(name, "tokenizer_config.json", "add_bos_token", json!(add));
        let path = copy.0.join("tokenizer_config.json");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        config["add_eos_token"] = json!(add);
        std::fs::write(path, config.to_string()).unwrap();
        assert_eq!(ids(&copy.0), ids(folder(name).as_ref()), "{name}");
    }
    let copy = Copy::changed_in("bert", "tokenizer_config.json", "add_bos_token", json!(false));
    let model = models::open(&copy.0).unwrap();
    let tokens = ids(&copy.0);
    let tokenizer = model.tokenizer().unwrap();
    assert_eq!(tokenizer.token(tokens[0]).unwrap().0, "[CLS]");
    EncoderConfig::new(model.metadata()).unwrap();
    Encoder::<f32, _>::load(&Cpu::new(), &model).unwrap();
}

#[test]
fn a_template_may_stand_in_a_file_of_the_processor() {
    let template =
        |copy: &Copy| models::open(&copy.0).unwrap().tokenizer().unwrap().chat_template().map(str::to_owned);
    let copy = Copy::changed_in("llama", "tokenizer_config.json", "chat_template", Value::Null);
    assert_eq!(template(&copy), None);
    std::fs::write(copy.0.join("chat_template.json"), json!({"chat_template": "one"}).to_string()).unwrap();
    assert_eq!(template(&copy).as_deref(), Some("one"));
    std::fs::write(copy.0.join("chat_template.jinja"), "{two}").unwrap();
    assert_eq!(template(&copy).as_deref(), Some("{two}"));
}

/// Decoders say which pattern stands for which text, and whether a space was put before the text.
#[test]
fn decoders_replace_what_they_say() {
    let from = format!("{}/data/outside/18-metaspace-never", env!("CARGO_MANIFEST_DIR"));
    let replace = |pattern: Value, to: &str| json!({"type": "Replace", "pattern": pattern, "content": to});
    let metaspace = |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
    let strip = |start: u32| json!({"type": "Strip", "content": " ", "start": start, "stop": 0});
    let all = |steps: &[Value]| json!({"type": "Sequence", "decoders": steps});
    let spaces = replace(json!({"String": "▁"}), " ");
    for (decoder, text) in [
        (metaspace("never"), " qx qy"),
        (metaspace("always"), "qx qy"),
        (spaces.clone(), " qx qy"),
        (all(&[spaces.clone(), strip(1)]), "qx qy"),
        (all(&[spaces.clone(), strip(0)]), " qx qy"),
        (replace(json!({"String": "q"}), "Q"), "▁Qx▁Qy"),
        (replace(json!({"Regex": "[qx]"}), "-"), "▁--▁-y"),
        (all(&[spaces, replace(json!({"String": "q"}), "k")]), " kx ky"),
    ] {
        let mut metadata = models::tokenizer_metadata(&from).unwrap().0;
        let mut json: Value =
            serde_json::from_str(metadata.str("tokenizer.huggingface.json").unwrap()).unwrap();
        json["decoder"] = decoder.clone();
        metadata.set("tokenizer.huggingface.json", json.to_string()).unwrap();
        let tokenizer = rocm_ops::gguf::Tokenizer::from_metadata(&metadata).unwrap();
        assert_eq!(tokenizer.decode(&[7, 4, 8]).unwrap(), text, "{decoder}");
    }
}

/// Generation ends at all tokens that any file names.
#[test]
fn ends_are_those_of_all_files() {
    let copy = Copy::changed("llama", "eos_token_id", json!([5, 6]));
    std::fs::write(copy.0.join("generation_config.json"), json!({"eos_token_id": 7}).to_string()).unwrap();
    let tokenizer = models::open(&copy.0).unwrap().tokenizer().unwrap();
    let own = tokenizer.eos().unwrap();
    for id in [5, 6, 7, own] {
        assert!(tokenizer.is_end(id), "{id}");
    }
    assert!(!tokenizer.is_end(8));
}

/// A file with changes to metadata and tensors of a fixture.
fn changed(name: &str, change: impl Fn(&mut Metadata), more: &[&str]) -> Gguf {
    let gguf = Gguf::open(format!("{}/data/families/{name}.gguf", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut metadata = gguf.metadata().clone();
    change(&mut metadata);
    let mut writer = Writer::with_metadata(metadata);
    gguf.tensors().for_each(|t| drop(writer.tensor(t.name(), t.ggml_type(), t.dims()).map(|_| ())));
    more.iter().for_each(|name| drop(writer.tensor(name, GgmlType::F32, &[4]).map(|_| ())));
    let mut body = writer.write_to(Vec::new()).unwrap();
    gguf.tensors().for_each(|t| body.write(t.name(), t.bytes().unwrap()).unwrap());
    more.iter().for_each(|name| body.write(name, &[0_u8; 16]).unwrap());
    Gguf::from_bytes(body.finish().unwrap()).unwrap()
}

#[test]
fn what_a_file_lacks_is_a_warning() {
    let said = |gguf: &Gguf, words: &[&str]| {
        let warnings = models::warnings(gguf);
        assert!(warnings.len() == 1 && words.iter().all(|word| warnings[0].contains(word)), "{warnings:?}");
    };
    let pooling = changed("qwen3-f16", |m| drop(m.set("qwen3.pooling_type", 3_u32).map(|_| ())), &[]);
    said(&pooling, &["qwen3.pooling_type", "embedding"]);
    let code = changed(
        "starcoder2-f16",
        |m| {
            m.remove("starcoder2.attention.sliding_window");
            m.set("starcoder2.context_length", 16384_u32).unwrap();
        },
        &[],
    );
    said(&code, &["from position 4096 on", "sliding_window"]);
    let mistral = changed(
        "llama-f16",
        |m| {
            m.set("general.name", "Mistral 7B Instruct v0.1").unwrap();
            m.set("llama.context_length", 32768_u32).unwrap();
        },
        &[],
    );
    said(&mistral, &["from position 4096 on"]);
    let experts = changed("deepseek-v3-f16", |m| drop(m.remove("deepseek2.expert_gating_func")), &[]);
    said(&experts, &["deepseek2.expert_gating_func", "exp_probs_b"]);
    for name in ["llama-f16", "qwen3-f16", "deepseek-v3-f16", "mistral-f16"] {
        assert_eq!(models::warnings(&changed(name, |_| (), &[])), [""; 0], "{name}");
    }
}

#[test]
fn vocab_size_is_compared_with_the_matrix() {
    let file = changed("llama-f16", |m| drop(m.set("llama.vocab_size", 1000_u32).map(|_| ())), &[]);
    let message = Decoder::<f32, _>::load(&Cpu::new(), &file, 16).err().unwrap().to_string();
    assert!(message.contains("llama.vocab_size") && message.contains("token_embd.weight"), "{message}");
}

/// The layer that predicts further tokens comes after all others.
#[test]
fn qwen3_next_runs_without_its_last_layer() {
    let cpu = Cpu::new();
    let logits = |gguf: &Gguf| {
        let model = Decoder::<f32, _>::load(&cpu, gguf, 16).unwrap();
        model.forward(&cpu, &mut model.state(&cpu, 16).unwrap(), &[3, 1, 2]).unwrap()
    };
    let plain = changed("qwen3next-f16", |_| (), &[]);
    let layers = models::Config::new(plain.metadata()).unwrap().layers as u32;
    let add = |m: &mut Metadata| {
        m.set("qwen3next.block_count", layers + 1).unwrap();
        m.set("qwen3next.nextn_predict_layers", 1_u32).unwrap();
    };
    let names = [format!("blk.{layers}.nextn.eh_proj.weight"), format!("blk.{layers}.attn_norm.weight")];
    let more = changed("qwen3next-f16", add, &[names[0].as_str(), names[1].as_str()]);
    assert_eq!(logits(&more), logits(&plain));
}
