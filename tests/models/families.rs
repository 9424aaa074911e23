//! The families on the CPU backends, their tokenizers, and refused files.
use ops_tests::bundled::quantized;
use ops_tests::families::{FAMILIES, all, check, check_batch, check_exact, folder};
use rocm_ops::gguf::Gguf;
use rocm_ops::model::KvCache;
use rocm_ops::models::{self, Decoder};
use rocm_ops::ops::*;
use rocm_ops::{Activations, Backend, Checked, Cpu, Reference};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn every_family_is_there() {
    let path = |name: &str| format!("{}/{name}.gguf", folder());
    let architecture =
        |name: &String| Gguf::open(path(name)).unwrap().metadata().architecture().unwrap().to_owned();
    let found: BTreeSet<_> = all().iter().map(architecture).collect();
    assert_eq!(found, models::families().map(str::to_owned).collect());
    assert!(FAMILIES.iter().all(|name| all().iter().any(|known| known == name)));
}

#[test]
fn on_the_cpu() {
    all().iter().for_each(|name| check(&Cpu::new(), name, usize::MAX, 31));
}

#[test]
fn on_the_reference() {
    all().iter().for_each(|name| check(&Reference::new(), name, 2, 4));
}

#[test]
fn with_every_op_checked() {
    let checked = Checked::new(Cpu::new(), Reference::new());
    all().iter().for_each(|name| check(&checked, name, 2, 4));
}

#[test]
fn a_batch_is_its_texts() {
    for name in ["gpt-oss-f16", "deepseek-v2-f16", "deepseek-v3-f16", "qwen3next-f16"] {
        check_batch(&Cpu::new(), &Gguf::open(format!("{}/{name}.gguf", folder())).unwrap(), name);
    }
}

/// Blocks lose nothing if activations are not rounded.
#[test]
fn with_exact_activations() {
    let cpu = Cpu::builder().activations(Activations::Exact).build().unwrap();
    ["llama-Q4_K_M", "gpt-oss-MXFP4"].iter().for_each(|name| check_exact(&cpu, name, usize::MAX, 31));
}

/// A prompt as a whole, in pieces and token by token.
#[test]
fn a_prompt_may_come_in_pieces() {
    for name in ["qwen3next-f16", "qwen3-f16"] {
        let (cpu, gguf) = (Cpu::new(), Gguf::open(format!("{}/{name}.gguf", folder())).unwrap());
        let model = Decoder::<f32, Cpu>::load(&cpu, &gguf, 40).unwrap();
        let tokens: Vec<u32> = (2..42).map(|i| i * 11 % 270).collect();
        let whole = model.forward_all(&cpu, &mut model.state(&cpu, 40).unwrap(), &tokens).unwrap();
        let scale = whole.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        // One piece is shorter than the convolution's window.
        for pieces in [vec![17, 2, 21], vec![1; 40]] {
            let (mut state, mut at, mut got) = (model.state(&cpu, 40).unwrap(), 0, Vec::new());
            for n in pieces {
                got.extend(model.forward_all(&cpu, &mut state, &tokens[at..at + n]).unwrap());
                at += n;
            }
            let off = got.iter().zip(&whole).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(got.len() == whole.len() && off <= 1e-5 * scale, "{name}: {off} of {scale}");
        }
    }
}

/// A recurrent layer keeps one state for the whole text, so a text can be read again but not cut.
#[test]
fn a_recurrent_text_cannot_be_cut() {
    let cpu = Cpu::new();
    let load = |name: &str| {
        let gguf = Gguf::open(format!("{}/{name}.gguf", folder())).unwrap();
        Decoder::<f32, Cpu>::load(&cpu, &gguf, 16).unwrap()
    };
    let model = load("qwen3next-f16");
    let mut state = model.state(&cpu, 16).unwrap();
    let first = model.forward(&cpu, &mut state, &[5, 6, 7, 8, 9]).unwrap();
    state.truncate(5).unwrap();
    let error = state.truncate(3).unwrap_err().to_string();
    assert!(error.contains("5 tokens") && error.contains("recurrent"), "{error}");
    assert_eq!(state.len(), 5);
    // Nothing has changed, and the text can be continued.
    let next = model.forward(&cpu, &mut state, &[10]).unwrap();
    state.truncate(0).unwrap();
    assert!(state.is_empty());
    assert_eq!(model.forward(&cpu, &mut state, &[5, 6, 7, 8, 9]).unwrap(), first);
    assert_eq!(model.forward(&cpu, &mut state, &[10]).unwrap(), next);

    let model = load("qwen3-f16");
    let mut state = model.state(&cpu, 16).unwrap();
    model.forward(&cpu, &mut state, &[5, 6]).unwrap();
    let first = model.forward(&cpu, &mut state, &[7]).unwrap();
    model.forward(&cpu, &mut state, &[8, 9]).unwrap();
    state.truncate(2).unwrap();
    assert_eq!(state.len(), 2);
    assert_eq!(model.forward(&cpu, &mut state, &[7]).unwrap(), first);
}

/// A step that fails in an attention layer leaves the recurrent layers before it ahead. The state is that of the same model
/// with a longer context, so the rotary tables end before the cache.
#[test]
fn a_failed_step_is_not_continued() {
    let cpu = Cpu::new();
    for (name, is_recurrent) in [("qwen3-f16", false), ("qwen3next-f16", true)] {
        let gguf = Gguf::open(format!("{}/{name}.gguf", folder())).unwrap();
        let [model, longer] = [4, 8].map(|context| Decoder::<f32, Cpu>::load(&cpu, &gguf, context).unwrap());
        let mut state = longer.state(&cpu, 8).unwrap();
        model.forward(&cpu, &mut state, &[5, 6]).unwrap();
        assert!(model.forward(&cpu, &mut state, &[7, 8, 9]).is_err());
        assert_eq!(state.len(), 2);
        if is_recurrent {
            let error = model.forward(&cpu, &mut state, &[7]).unwrap_err().to_string();
            assert!(error.contains("recurrent") && error.contains("truncate"), "{error}");
            state.truncate(0).unwrap();
            model.forward(&cpu, &mut state, &[5, 6]).unwrap();
        }
        let got = model.forward(&cpu, &mut state, &[7]).unwrap();
        let mut whole = longer.state(&cpu, 8).unwrap();
        model.forward(&cpu, &mut whole, &[5, 6]).unwrap();
        assert_eq!(got, model.forward(&cpu, &mut whole, &[7]).unwrap(), "{name}");
    }
}

/// Matrices that are split head by head when they are loaded may be in blocks.
#[test]
fn qwen3next_may_be_quantized() {
    let (cpu, from) = (Cpu::new(), format!("{}/qwen3next-f16.gguf", folder()));
    let blocks = Gguf::from_bytes(quantized(&from, "q8_0")).unwrap();
    let floats = Gguf::open(&from).unwrap();
    for split in ["blk.0.ssm_ba.weight", "blk.2.attn_q.weight"] {
        assert_eq!(blocks.tensor(split).unwrap().ggml_type(), rocm_ops::gguf::GgmlType::Q8_0, "{split}");
    }
    let logits = |gguf: &Gguf| {
        let model = Decoder::<f32, Cpu>::load(&cpu, gguf, 16).unwrap();
        model.forward(&cpu, &mut model.state(&cpu, 16).unwrap(), &[3, 1, 4, 1, 5, 9, 2, 6]).unwrap()
    };
    let (got, want) = (logits(&blocks), logits(&floats));
    let error: f32 = got.iter().zip(&want).map(|(g, w)| (g - w).powi(2)).sum();
    let error = error / want.iter().map(|w| w * w).sum::<f32>();
    assert!(error > 0.0 && error < 1e-2, "{error}");
}

/// Older files have queries, keys, values and gates of each key head in one matrix.
#[test]
fn an_older_file_of_qwen3next_is_the_same_model() {
    const HEADS: usize = 2;
    const KEY: usize = 24;
    const VALUE: usize = 32;
    const WIDTH: usize = 32;
    const ROW: usize = WIDTH * 2;
    let gguf = Gguf::open(format!("{}/qwen3next-f16.gguf", folder())).unwrap();
    let bytes = |name: &str| gguf.tensor(name).unwrap().bytes().unwrap().to_vec();
    let older = |layer: usize| {
        let (mixed, gate) =
            (bytes(&format!("blk.{layer}.attn_qkv.weight")), bytes(&format!("blk.{layer}.attn_gate.weight")));
        let head = |at: usize| {
            let rows = |from: &[u8], start: usize, n: usize| from[start * ROW..(start + n) * ROW].to_vec();
            let (q, k) = (rows(&mixed, at * KEY, KEY), rows(&mixed, (HEADS + at) * KEY, KEY));
            let v = rows(&mixed, 2 * HEADS * KEY + at * VALUE, VALUE);
            [q, k, v, rows(&gate, at * VALUE, VALUE)].concat()
        };
        (0..HEADS).flat_map(head).collect::<Vec<u8>>()
    };
    let is_part = |name: &str| name.ends_with("attn_qkv.weight") || name.ends_with("attn_gate.weight");
    let kept = || gguf.tensors().filter(|tensor| !is_part(tensor.name()));
    let mut writer = rocm_ops::gguf::Writer::with_metadata(gguf.metadata().clone());
    kept().for_each(|t| drop(writer.tensor(t.name(), t.ggml_type(), t.dims()).map(|_| ())));
    let layers = [0, 1, 3].map(|layer| (format!("blk.{layer}.ssm_in.weight"), older(layer)));
    for (name, _) in &layers {
        writer.tensor(name, rocm_ops::gguf::GgmlType::F16, &[2 * HEADS * (KEY + VALUE), WIDTH]).unwrap();
    }
    let mut body = writer.write_to(Vec::new()).unwrap();
    kept().for_each(|t| body.write(t.name(), t.bytes().unwrap()).unwrap());
    layers.iter().for_each(|(name, bytes)| body.write(name, bytes).unwrap());
    let old = Gguf::from_bytes(body.finish().unwrap()).unwrap();
    let logits = |gguf: &Gguf| {
        let (cpu, tokens) = (Cpu::new(), [3, 1, 4, 1, 5, 9]);
        let model = Decoder::<f32, Cpu>::load(&cpu, gguf, 16).unwrap();
        model.forward(&cpu, &mut model.state(&cpu, 16).unwrap(), &tokens).unwrap()
    };
    assert_eq!(logits(&old), logits(&gguf));
}

/// A cache whose values are part of its keys accepts only keys, and any other accepts both.
#[test]
fn caches_take_what_they_hold() {
    let cpu = Cpu::new();
    let keys = cpu.tensor(&[1, 1, 2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let mut latent = KvCache::latent(&cpu, [1, 1, 3, 3], 2).unwrap();
    assert!(
        latent.append(&cpu, keys.as_ref(), keys.as_ref()).unwrap_err().to_string().contains("append_keys")
    );
    assert_eq!(latent.len(), 0);
    latent.append_keys(&cpu, keys.as_ref()).unwrap();
    let values: Vec<f32> = cpu.copy_of(latent.values().unwrap()).unwrap().to_vec(&cpu).unwrap();
    assert_eq!(values, [1.0, 2.0, 4.0, 5.0]);
    assert!(latent.append_keys(&cpu, keys.as_ref()).unwrap_err().to_string().contains("at most 1 more"));
    let mut both = KvCache::new(&cpu, [1, 1, 3, 3]).unwrap();
    assert!(both.append_keys(&cpu, keys.as_ref()).unwrap_err().to_string().contains("values"));
    assert_eq!(both.len(), 0);
    assert!(KvCache::<_, f32>::latent(&cpu, [1, 1, 3, 3], 4).is_err());
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

/// A copy of a model with one change, and the error when loading it.
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
    for (name, key, value) in [
        ("qwen3-f16", "qwen3.attention.kv_lora_rank", 16_u32),
        ("qwen3-f16", "qwen3.expert_shared_count", 1),
        ("deepseek-v3-f16", "deepseek2.expert_group_count", 3),
        ("deepseek-v3-f16", "deepseek2.expert_gating_func", 4),
        ("deepseek-v3-f16", "deepseek2.expert_group_used_count", 3),
        ("deepseek-v3-f16", "deepseek2.expert_used_count", 5),
        ("deepseek-v3-f16", "deepseek2.nextn_predict_layers", 1),
        ("deepseek-v3-f16", "deepseek2.attention.key_length_mla", 16),
        ("deepseek-v3-f16", "deepseek2.attention.key_length", 80),
        ("deepseek-v3-f16", "deepseek2.attention.value_length", 64),
        ("deepseek-v3-f16", "deepseek2.attention.head_count_kv", 4),
        ("gpt-oss-f16", "gpt-oss.attention.value_length", 16),
        ("qwen3-f16", "qwen3.ssm.inner_size", 64),
        ("qwen3next-f16", "qwen3next.ssm.group_count", 3),
        ("qwen3next-f16", "qwen3next.ssm.inner_size", 126),
        ("phi3-long-f16", "phi3.rope.scaling.original_context_length", 0),
    ] {
        let message = refused(name, key, value);
        assert!(message.contains(key), "{message}");
    }
    let stretched = refused("deepseek-v3-f16", "deepseek2.rope.scaling.yarn_ext_factor", 0.5_f32);
    assert!(stretched.contains("yarn_ext_factor"), "{stretched}");
    let fewer = refused("deepseek-v3-f16", "deepseek2.leading_dense_block_count", 0_u32);
    assert!(fewer.contains("blk.0."), "{fewer}");
    let narrower = refused("deepseek-v3-f16", "deepseek2.attention.key_length_mla", 32_u32);
    assert!(narrower.contains("attn_q_b"), "{narrower}");
    // Another interval makes other layers recurrent, and no period fits an array of a different length.
    let interval = refused("qwen3next-f16", "qwen3next.full_attention_interval", 2_u32);
    assert!(interval.contains("blk.1."), "{interval}");
    let layers = rocm_ops::gguf::Array::Bool([true, true, false].into());
    let layers = refused("qwen3next-f16", "qwen3next.attention.recurrent_layers", layers);
    assert!(layers.contains("recurrent_layers") && layers.contains("4 layers"), "{layers}");
    let state = refused("qwen3next-f16", "qwen3next.ssm.state_size", 16_u32);
    assert!(state.contains("attn_qkv"), "{state}");
    // A dense family whose file claims to have experts.
    let experts = refused("qwen3-f16", "qwen3.expert_count", 8_u32);
    assert!(experts.contains("expert_count"), "{experts}");
    // Tensors that the family does not use: norms of heads in a llama.
    let head_norms = refused("llama-f16", "llama.attention.key_length", 16_u32);
    assert!(head_norms.contains("attn_q") || head_norms.contains("value_length"), "{head_norms}");
}

/// Files of the largest Gemma 2 and 3 do not say that scores are scaled by the model's width.
#[test]
fn scores_of_the_largest_gemmas_are_scaled_by_width() {
    for (name, key, layers) in
        [("gemma2-f16", "gemma2.block_count", 46_u32), ("gemma3-f16", "gemma3.block_count", 62)]
    {
        let gguf = Gguf::open(format!("{}/{name}.gguf", folder())).unwrap();
        let config = |change: &dyn Fn(&mut rocm_ops::gguf::Metadata)| {
            let mut metadata = gguf.metadata().clone();
            change(&mut metadata);
            models::Config::new(&metadata).unwrap()
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
