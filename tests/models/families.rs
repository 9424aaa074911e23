//! The families on the CPU backends, their tokenizers, and what is refused.
use crate::fixture::{FAMILIES, check, folder};
use rocm_ops::gguf::Gguf;
use rocm_ops::models::Decoder;
use rocm_ops::{Checked, Cpu, Reference};
use serde_json::Value;

/// Made by `tools/family-fixture.py`; on the CPU only, because the stand-in takes minutes for each.
const MORE: [&str; 8] = [
    "mistral-f16",
    "mixtral-f16",
    "qwen2-f16",
    "gemma2-f16",
    "phi3-f16",
    "starcoder2-f16",
    "stablelm-f16",
    "stablelm-parallel-f16",
];

#[test]
fn on_the_cpu() {
    FAMILIES.iter().chain(&MORE).for_each(|name| check(&Cpu::new(), name, usize::MAX, 31));
}

#[test]
fn on_the_reference() {
    FAMILIES.iter().chain(&MORE).for_each(|name| check(&Reference::new(), name, 2, 4));
}

#[test]
fn with_every_op_checked() {
    FAMILIES
        .iter()
        .chain(&MORE)
        .for_each(|name| check(&Checked::new(Cpu::new(), Reference::new()), name, 2, 4));
}

#[test]
fn texts_have_the_tokens_of_the_family() {
    let mut compared = 0;
    for name in FAMILIES {
        let text = std::fs::read_to_string(format!("{}/{name}.json", folder())).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        let tokenizer = Gguf::open(format!("{}/{name}.gguf", folder())).unwrap().tokenizer().unwrap();
        // The quantized file has the tokenizer of the one it was made from.
        let Some(pairs) = json["tokenizer"].as_array() else { continue };
        compared += pairs.len();
        for pair in pairs {
            let (text, want) = (pair[0].as_str().unwrap(), pair[1].as_array().unwrap());
            let want: Vec<u32> = want.iter().map(|v| v.as_u64().unwrap() as u32).collect();
            assert_eq!(tokenizer.encode(text).unwrap(), want, "{name}: {text:?}");
        }
    }
    assert!(compared >= 8, "{compared} texts compared");
}

/// A copy of a model with one thing changed, and what loading it says.
fn refused(name: &str, change: &str, value: impl Into<rocm_ops::gguf::Value>) -> String {
    let gguf = Gguf::open(format!("{}/{name}.gguf", folder())).unwrap();
    let mut writer = rocm_ops::gguf::Writer::with_metadata(gguf.metadata().clone());
    writer.set(change, value).unwrap();
    gguf.tensors().for_each(|t| drop(writer.tensor(t.name(), t.ggml_type(), t.dims()).map(|_| ())));
    let mut body = writer.write_to(Vec::new()).unwrap();
    gguf.tensors().for_each(|t| body.write(t.name(), t.bytes().unwrap()).unwrap());
    let file = Gguf::from_bytes(body.finish().unwrap()).unwrap();
    Decoder::<f32, Cpu>::load(&Cpu::new(), &file, 16).err().expect("refused").to_string()
}

#[test]
fn what_is_not_understood_is_an_error_that_names_it() {
    let family = refused("qwen3-f16", "general.architecture", "mamba");
    assert!(family.contains("mamba") && family.contains("gemma3"), "{family}");
    for (name, key, value) in [
        ("qwen3-f16", "qwen3.logit_scale", 0.5_f32),
        ("llama-f16", "llama.attention.max_alibi_bias", 8.0),
        ("qwen3-f16", "qwen3.final_logit_softcapping", 30.0),
    ] {
        let message = refused(name, key, value);
        assert!(message.contains(key), "{message}");
    }
    // A dense family whose file says that it has experts.
    let experts = refused("qwen3-f16", "qwen3.expert_count", 8_u32);
    assert!(experts.contains("expert_count"), "{experts}");
    // Tensors that the family has no use for: norms of heads in a llama.
    let head_norms = refused("llama-f16", "llama.attention.key_length", 32_u32);
    assert!(head_norms.contains("attn_q") || head_norms.contains("value_length"), "{head_norms}");
}

/// Files of the largest Gemma 2 and 3 do not say that their scores are scaled by the model's width.
#[test]
fn scores_of_the_largest_gemmas_are_scaled_by_width() {
    for (name, key, layers) in
        [("gemma2-f16", "gemma2.block_count", 46_u32), ("gemma3-f16", "gemma3.block_count", 62)]
    {
        let gguf = Gguf::open(format!("{}/{name}.gguf", folder())).unwrap();
        let config = |change: &dyn Fn(&mut rocm_ops::gguf::Metadata)| {
            let mut metadata = gguf.metadata().clone();
            change(&mut metadata);
            rocm_ops::models::Config::new(&metadata).unwrap()
        };
        assert_eq!(config(&|_| ()).score_scale, None);
        let largest = config(&|metadata| drop(metadata.set(key, layers).map(|_| ())));
        let width = (largest.dim / largest.heads) as f64;
        assert_eq!(largest.score_scale, Some(1.0 / width.sqrt()), "{name}");
        let scale = key.replace("block_count", "attention.scale");
        let said = config(&|metadata| drop(metadata.set(&scale, 0.25_f32).map(|_| ())));
        assert_eq!(said.score_scale, Some(0.25), "{name}");
    }
}
