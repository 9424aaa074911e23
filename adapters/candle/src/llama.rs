//! The file content from which candle's quantized llama loads.
use crate::convert::{OrCandle, refused};
use crate::ops::Computes;
use crate::quantized::tensor;
use candle_core::quantized::QTensor;
use candle_core::quantized::ggml_file::{Content, HParams, VersionedMagic, Vocab};
use candle_core::{Device, Result};
use rocm_ops::gguf::{Gguf, Metadata};
use std::collections::{HashMap, HashSet};

/// What `candle_transformers::models::quantized_llama::ModelWeights::from_ggml` takes.
pub struct Llama {
    /// The weights and sizes.
    pub content: Content,
    /// The number of query heads for each head of keys.
    pub gqa: usize,
}

/// What is fixed in candle's code for this kind of file.
const EPS: f32 = 1e-5;
const FREQ_BASE: f32 = 10000.0;

/// Reads a llama from a GGUF file for candle's own model, whose products `backend` then computes.
///
/// candle's other loaders make their blocks of a file by themselves. `from_ggml` takes a [`Content`], whose tensors are public. It is meant
/// for an older kind of file, for which candle fixes some numbers, so this function refuses models that differ: the epsilon of norms
/// must be 1e-5 and the base of the rotation 10000, without scaling, and there may be no experts, windows or further tensors.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use candle_transformers::models::quantized_llama::ModelWeights;
/// use rocm_ops::{Cpu, gguf::Gguf};
/// use rocm_ops_candle::{Llama, llama};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-q8_0.gguf");
/// let Llama { content, gqa } = llama(&Gguf::open(path).unwrap(), &Cpu::new())?;
/// let mut model = ModelWeights::from_ggml(content, gqa)?;
/// let logits = model.forward(&Tensor::new(&[[0u32, 17]], &Device::Cpu)?, 0)?;
/// assert_eq!(logits.dims(), [1, 4096]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// A model that candle would compute wrongly, with the key that differs; as [`tensor`].
pub fn llama<B: Computes>(gguf: &Gguf, backend: &B) -> Result<Llama> {
    let metadata = gguf.metadata();
    let number = |key: &str| metadata.arch_u32(key).or_candle();
    let (n_layer, n_embd, n_head) =
        (number("block_count")?, number("embedding_length")?, number("attention.head_count")?);
    let kv_heads = metadata.arch_find::<u32>("attention.head_count_kv").or_candle()?.unwrap_or(n_head);
    if n_head == 0 || kv_heads == 0 || n_head % kv_heads != 0 || n_embd % n_head != 0 {
        let (got, want) = (format!("{n_head}, with {kv_heads} of keys"), format!("a divisor of {n_embd}"));
        return Err(refused("llama", "attention.head_count", got, &want));
    }
    check(metadata, n_embd / n_head)?;

    let (mut tensors, mut taken) = (HashMap::new(), HashSet::new());
    let mut take = |ours: &str, theirs: String| -> Result<()> {
        tensors.insert(theirs, tensor(gguf, ours, backend)?);
        taken.insert(ours.to_owned());
        Ok(())
    };
    take("token_embd.weight", "tok_embeddings.weight".into())?;
    take("output_norm.weight", "norm.weight".into())?;
    // A model without a matrix for the output uses the table.
    let output = if gguf.find("output.weight").is_some() { "output.weight" } else { "token_embd.weight" };
    take(output, "output.weight".into())?;
    for layer in 0..n_layer {
        for (ours, theirs) in OF_LAYER {
            take(&format!("blk.{layer}.{ours}.weight"), format!("layers.{layer}.{theirs}.weight"))?;
        }
    }
    // Such as biases, or factors of frequencies: candle would compute without them.
    if let Some(other) = gguf.tensors().find(|tensor| !taken.contains(tensor.name())) {
        return Err(refused("llama", other.name(), "in the file", "only tensors that candle's loader reads"));
    }
    let n_vocab = tensors.get("output.weight").map_or(0, rows);
    // The model reads n_embd, n_head and n_layer.
    let hparams = HParams { n_vocab, n_embd, n_mult: 1, n_head, n_layer, n_rot: n_embd / n_head, ftype: 0 };
    let content = Content {
        magic: VersionedMagic::GgjtV3,
        hparams,
        vocab: Vocab { token_score_pairs: Vec::new() },
        tensors,
        device: Device::Cpu,
    };
    Ok(Llama { content, gqa: (n_head / kv_heads) as usize })
}

/// The tensors of a layer, by their names in GGUF files and in candle's.
const OF_LAYER: [(&str, &str); 9] = [
    ("attn_q", "attention.wq"),
    ("attn_k", "attention.wk"),
    ("attn_v", "attention.wv"),
    ("attn_output", "attention.wo"),
    ("attn_norm", "attention_norm"),
    ("ffn_gate", "feed_forward.w1"),
    ("ffn_down", "feed_forward.w2"),
    ("ffn_up", "feed_forward.w3"),
    ("ffn_norm", "ffn_norm"),
];

fn rows(matrix: &QTensor) -> u32 {
    matrix.shape().dims().first().map_or(0, |rows| *rows as u32)
}

/// Refuses what candle's code would compute wrongly.
fn check(metadata: &Metadata, head: u32) -> Result<()> {
    let architecture = metadata.architecture().or_candle()?;
    if architecture != "llama" {
        return Err(refused("llama", "general.architecture", architecture, "llama"));
    }
    is(metadata, "attention.layer_norm_rms_epsilon", EPS, 0.0)?;
    is(metadata, "rope.freq_base", FREQ_BASE, FREQ_BASE)?;
    for key in ["rope.dimension_count", "attention.key_length", "attention.value_length"] {
        let got = metadata.arch_find::<u32>(key).or_candle()?.unwrap_or(head);
        if got != head {
            return Err(refused("llama", key, got, &format!("{head}, the length of a head")));
        }
    }
    let experts = metadata.arch_find::<u32>("expert_count").or_candle()?.unwrap_or(0);
    if experts > 1 {
        return Err(refused("llama", "expert_count", experts, "a model without experts"));
    }
    let scaling = metadata.arch_find::<&str>("rope.scaling.type").or_candle()?.unwrap_or("none");
    if scaling != "none" {
        return Err(refused("llama", "rope.scaling.type", scaling, "none"));
    }
    match metadata.arch_find::<u32>("attention.sliding_window").or_candle()? {
        Some(window) => {
            Err(refused("llama", "attention.sliding_window", window, "attention without windows"))
        }
        None => Ok(()),
    }
}

/// Refuses a number that differs from the one in candle's code.
fn is(metadata: &Metadata, key: &str, want: f32, absent: f32) -> Result<()> {
    let got = metadata.arch_find::<f32>(key).or_candle()?.unwrap_or(absent);
    if (got - want).abs() <= want * 1e-5 {
        return Ok(());
    }
    Err(refused("llama", key, got, &format!("{want}, which candle fixes for this loader")))
}
