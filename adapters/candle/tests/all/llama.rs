//! candle's own quantized llama on our weights, compared with itself on its own.
use candle_core::quantized::gguf_file;
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use rocm_ops::Cpu;
use rocm_ops::gguf::{GgmlType, Gguf, Mixture, Quantizer, Writer};
use rocm_ops::quant::{Q4_0, Q8_0};
use rocm_ops_candle::{Llama, llama};
use std::path::{Path, PathBuf};

fn path(dtype: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../models/tiny-llama-kjv-{dtype}.gguf"))
}

/// The bundled model in this type: from the repository, or quantized in `folder`.
fn model(dtype: &str, folder: &Path) -> PathBuf {
    if path(dtype).exists() {
        return path(dtype);
    }
    let to = folder.join(format!("{dtype}.gguf"));
    let mixture = Mixture::from_name(dtype).unwrap();
    Quantizer::open(path("f16"), mixture).unwrap().write(&Cpu::new(), &to, |_| ()).unwrap();
    to
}

/// A prompt and the tokens that follow, from float64.
fn text() -> (Vec<u32>, Vec<u32>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/greedy.json");
    let all: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let ids =
        |key: &str| all[0][key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    (ids("prompt_ids"), ids("ids"))
}

/// The logits after the prompt, and after each of the given tokens.
fn logits(model: &mut ModelWeights) -> Vec<Vec<f32>> {
    let (prompt, ids) = text();
    let mut step = |ids: &[u32], start| {
        let x = Tensor::new(ids, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        model.forward(&x, start).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()
    };
    let mut all = vec![step(&prompt, 0)];
    all.extend(ids[..24].iter().enumerate().map(|(i, id)| step(&[*id], prompt.len() + i)));
    all
}

fn candles(path: &Path) -> ModelWeights {
    let mut file = std::fs::File::open(path).unwrap();
    let content = gguf_file::Content::read(&mut file).unwrap();
    ModelWeights::from_gguf(content, &mut file, &Device::Cpu).unwrap()
}

fn on_ours(gguf: &Gguf) -> ModelWeights {
    let Llama { content, gqa } = llama(gguf, &Cpu::new()).unwrap();
    ModelWeights::from_ggml(content, gqa).unwrap()
}

fn largest(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&i, &j| logits[i].total_cmp(&logits[j])).unwrap()
}

/// How much larger the largest logit is than any other.
fn margin(logits: &[f32]) -> f32 {
    let top = largest(logits);
    let others = logits.iter().enumerate().filter(|(i, _)| *i != top).map(|(_, v)| *v);
    logits[top] - others.fold(f32::NEG_INFINITY, f32::max)
}

/// Both round activations to 8 bits, in blocks of different lengths, in each of six layers.
fn check(dtype: &str, budget: f64) {
    let folder = tempfile::tempdir().unwrap();
    let path = model(dtype, folder.path());
    let (want, got) = (logits(&mut candles(&path)), logits(&mut on_ours(&Gguf::open(&path).unwrap())));
    let mut compared = 0;
    for (step, (want, got)) in want.iter().zip(&got).enumerate() {
        let error: f64 = want.iter().zip(got).map(|(w, g)| f64::from(w - g).powi(2)).sum();
        let error = error / want.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>();
        assert!(error <= budget, "{dtype}, step {step}: {error}");
        let largest_difference = want.iter().zip(got).map(|(w, g)| (w - g).abs()).fold(0.0, f32::max);
        if margin(want) > 2.0 * largest_difference {
            assert_eq!(largest(got), largest(want), "{dtype}, step {step}");
            compared += 1;
        }
    }
    assert!(compared >= 20, "{dtype}: only {compared} margins exceed the error");
}

#[test]
fn q8_0_gives_candles_logits_and_tokens() {
    check("q8_0", Q8_0.error_budget().any);
}

#[test]
fn q4_0_gives_candles_logits_and_tokens() {
    check("q4_0", Q4_0.error_budget().any);
}

/// In which candle multiplies in f32, so that nothing is rounded.
#[test]
fn f16_is_candles_own() {
    check("f16", 1e-12);
}

/// A model without layers, with this key and everything else as candle fixes it. Each tensor is filled with a number.
fn small(
    architecture: &str,
    (key, value): (&str, rocm_ops::gguf::Value),
    tensors: &[(&str, &[usize], f32)],
) -> candle_core::Result<Llama> {
    let mut writer = Writer::new();
    writer.set("general.architecture", architecture).unwrap();
    let numbers = [("block_count", 0u32), ("embedding_length", 64), ("attention.head_count", 4)];
    for (key, number) in numbers {
        writer.set(format!("{architecture}.{key}"), number).unwrap();
    }
    writer.set(format!("{architecture}.attention.layer_norm_rms_epsilon"), 1e-5f32).unwrap();
    writer.set(key, value).unwrap();
    for (name, dims, _) in tensors {
        writer.tensor(name, GgmlType::F32, dims).unwrap();
    }
    let mut body = writer.write_to(Vec::new()).unwrap();
    for (name, dims, number) in tensors {
        body.write(name, &vec![*number; dims.iter().product()]).unwrap();
    }
    llama(&Gguf::from_bytes(body.finish().unwrap()).unwrap(), &Cpu::new())
}

const TABLE: (&str, &[usize], f32) = ("token_embd.weight", &[2, 64], 1.0);
const NORM: (&str, &[usize], f32) = ("output_norm.weight", &[64], 0.0);

/// The error of a model with this key, or nothing.
fn with_key(key: &str, value: impl Into<rocm_ops::gguf::Value>) -> String {
    error("llama", key, value)
}

fn error(architecture: &str, key: &str, value: impl Into<rocm_ops::gguf::Value>) -> String {
    let made = small(architecture, (key, value.into()), &[TABLE, NORM]);
    made.err().map_or_else(String::new, |e| e.to_string())
}

#[test]
fn the_table_is_the_output_unless_there_is_one() {
    for (tensors, want) in
        [(&[TABLE, NORM][..], 1.0), (&[TABLE, NORM, ("output.weight", &[3, 64], 2.0)], 2.0)]
    {
        let made = small("llama", ("llama.context_length", 512u32.into()), tensors).unwrap();
        let output = made.content.tensors["output.weight"].dequantize(&Device::Cpu).unwrap();
        assert_eq!(made.content.hparams.n_vocab as usize, output.dim(0).unwrap());
        assert!(output.flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().all(|v| *v == want));
    }
}

#[test]
fn models_that_candle_would_compute_wrongly_are_refused() {
    assert_eq!(with_key("llama.context_length", 512u32), "");
    assert_eq!(with_key("llama.rope.freq_base", 10000f32), "");
    let refused = |error: String, want: &str| assert!(error.starts_with(want), "{error}");
    refused(with_key("llama.rope.freq_base", 500_000f32), "llama: rope.freq_base is 500000, expected 10000");
    let window = with_key("llama.attention.sliding_window", 16u32);
    refused(window, "llama: attention.sliding_window is 16, expected attention without windows");
    let eps = with_key("llama.attention.layer_norm_rms_epsilon", 1e-6f32);
    refused(eps, "llama: attention.layer_norm_rms_epsilon is 0.000001");
    refused(
        with_key("llama.expert_count", 8u32),
        "llama: expert_count is 8, expected a model without experts",
    );
    refused(
        with_key("llama.rope.scaling.type", "linear"),
        "llama: rope.scaling.type is linear, expected none",
    );
    refused(with_key("llama.rope.dimension_count", 8u32), "llama: rope.dimension_count is 8, expected 16");
    refused(
        with_key("llama.attention.head_count_kv", 3u32),
        "llama: attention.head_count is 4, with 3 of keys",
    );
    refused(with_key("general.architecture", "qwen3"), "no metadata key `qwen3.block_count`");
    let other = error("mistral", "llama.context_length", 512u32);
    refused(other, "llama: general.architecture is mistral, expected llama");
}

#[test]
fn other_heads_and_further_tensors_are_refused() {
    // Its heads are longer than their share of a row.
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/families/llama-f16.gguf");
    let gguf = Gguf::open(file).unwrap();
    let head = llama(&gguf, &Cpu::new()).map(|_| ()).unwrap_err().to_string();
    assert!(
        head.starts_with("llama: rope.dimension_count is 32, expected 16, the length of a head"),
        "{head}"
    );
    let tensors = [TABLE, NORM, ("rope_freqs.weight", &[4][..], 1.0)];
    let key = ("llama.context_length", 512u32.into());
    let error = small("llama", key, &tensors).map(|_| ()).unwrap_err().to_string();
    let want = "llama: rope_freqs.weight is in the file, expected only tensors that candle's loader reads";
    assert!(error.starts_with(want), "{error}");
}
