//! Loads tensors from a file as weights.
use super::{Config, Layer, Llama, Result};
use rocm_ops::Float;
use rocm_ops::gguf::{Gguf, Weights};
use rocm_ops::model::{RopeScaling, RopeTables, Transformer};
use std::marker::PhantomData;

pub(super) fn load<T: Float, B: Transformer<T>>(b: &B, gguf: &Gguf, context: usize) -> Result<Llama<T, B>> {
    let mut config = Config::new(gguf.metadata())?;
    let weights = Weights::new(b, gguf);
    let Config { dim, ffn, heads, kv_heads, head_dim, .. } = config;
    let (q, kv) = (product(heads, head_dim)?, product(kv_heads, head_dim)?);
    let layer = |i: usize| -> Result<Layer<B>> {
        let weight = |part: &str, dims| weights.packed::<T>(&format!("blk.{i}.{part}.weight"), dims);
        let norm = |part: &str| weights.vector(&format!("blk.{i}.{part}.weight"), dim);
        Ok(Layer {
            attn_norm: norm("attn_norm")?,
            q: weight("attn_q", [q, dim])?,
            k: weight("attn_k", [kv, dim])?,
            v: weight("attn_v", [kv, dim])?,
            o: weight("attn_output", [dim, q])?,
            ffn_norm: norm("ffn_norm")?,
            gate: weight("ffn_gate", [ffn, dim])?,
            up: weight("ffn_up", [ffn, dim])?,
            down: weight("ffn_down", [dim, ffn])?,
        })
    };
    if let Some(bias) = gguf.tensors().find(|t| t.name().ends_with(".bias")) {
        return Err(
            format!("tensor {}: biases are not part of the architecture \"llama\"", bias.name()).into()
        );
    }

    let embedding = gguf.tensor("token_embd.weight")?;
    let &[vocab, _] = embedding.dims() else {
        return Err(format!(
            "tensor token_embd.weight has dimensions {:?}, expected [vocab, {dim}]",
            embedding.dims()
        )
        .into());
    };
    if let Some(factors) = gguf.find("rope_freqs.weight") {
        config.rope_scaling = RopeScaling::Factors(factors.view::<f32>()?.into_owned());
    }
    let (cos, sin) =
        RopeTables::new(context, config.rope_dim, config.rope_base, &config.rope_scaling)?.upload(b)?;
    Ok(Llama {
        embedding: weights.matrix("token_embd.weight", [vocab, dim])?,
        layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
        output_norm: weights.vector("output_norm.weight", dim)?,
        output: weights
            .contains("output.weight")
            .then(|| weights.packed::<T>("output.weight", [vocab, dim]))
            .transpose()?,
        config,
        cos,
        sin,
        computes_in: PhantomData,
    })
}

fn product(heads: usize, head_dim: usize) -> Result<usize> {
    heads
        .checked_mul(head_dim)
        .ok_or_else(|| format!("{heads} heads of {head_dim} features are too many").into())
}
