//! Tensors of a file as weights.
use super::{Config, Layer, Llama, Result};
use ops_gguf::{GgmlType, Gguf, Tensor as FileTensor};
use rocm_ops::model::{RopeScaling, RopeTables, Transformer, Weight};
use rocm_ops::ops::LinearOps;
use rocm_ops::ops::registry::{self, Group};
use rocm_ops::{Backend, Element, Float, Layout, Tensor, TensorOf, bf16, f16};
use std::marker::PhantomData;
use std::sync::Arc;

pub(super) fn load<T: Float, B: Transformer<T>>(b: &B, gguf: &Gguf, context: usize) -> Result<Llama<T, B>> {
    let mut config = Config::new(gguf.metadata())?;
    let Config { dim, ffn, heads, kv_heads, head_dim, .. } = config;
    let (q, kv) = (product(heads, head_dim)?, product(kv_heads, head_dim)?);
    let layer = |i: usize| -> Result<Layer<B>> {
        let weight = |part: &str, dims| {
            pack::<T, B>(b, weight(b, &gguf.tensor(&format!("blk.{i}.{part}.weight"))?, dims)?)
        };
        let norm = |part: &str| norm(b, &gguf.tensor(&format!("blk.{i}.{part}.weight"))?, dim);
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
        embedding: weight(b, &embedding, [vocab, dim])?,
        layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
        output_norm: norm(b, &gguf.tensor("output_norm.weight")?, dim)?,
        output: gguf
            .find("output.weight")
            .map(|t| pack::<T, B>(b, weight(b, &t, [vocab, dim])?))
            .transpose()?,
        config,
        cos,
        sin,
        computes_in: PhantomData,
    })
}

/// A matrix of a linear layer in the order that the backend reads it in.
fn pack<T: Float, B: Transformer<T>>(b: &B, weight: Weight<B::Space>) -> Result<Weight<B::Space>> {
    Ok(LinearOps::<T>::pack_weight(b, weight)?)
}

fn product(heads: usize, head_dim: usize) -> Result<usize> {
    heads
        .checked_mul(head_dim)
        .ok_or_else(|| format!("{heads} heads of {head_dim} features are too many").into())
}

/// A matrix of any supported type, `dims` counted in values.
fn weight<B: Backend>(b: &B, t: &FileTensor<'_>, dims: [usize; 2]) -> Result<Weight<B::Space>> {
    expect(t, &dims)?;
    let named = t.ggml_type().name().and_then(registry::dtype).filter(|dtype| dtype.is_real());
    let Some(dtype) = named else {
        let known: Vec<_> =
            Group::Elements.members().iter().filter(|d| d.is_real()).map(|d| d.name()).collect();
        let (name, got) = (t.name(), t.ggml_type());
        return Err(format!("tensor {name} is of type {got}; this program reads {}", known.join(", ")).into());
    };
    let (data, dims) = (t.raw_data()?, t.block_dims()?);
    // In place where the backend can, and the elements lie as it needs them.
    match Weight::new(b.adopt(Arc::new(data.clone()))?, dtype, Layout::contiguous(&dims)?) {
        Err(rocm_ops::Error::Align { .. }) => Ok(b.any_tensor(dtype, &dims, data.as_ref() as &[u8])?),
        adopted => Ok(adopted?),
    }
}

/// The weight of a norm, in f32.
fn norm<B: Backend>(b: &B, t: &FileTensor<'_>, dim: usize) -> Result<TensorOf<B, f32>> {
    expect(t, &[dim])?;
    let widened: Vec<f32> = match t.ggml_type() {
        GgmlType::F32 => return adopt(b, t),
        GgmlType::F16 => t.view::<f16>()?.iter().map(|v| v.to_f32()).collect(),
        GgmlType::BF16 => t.view::<bf16>()?.iter().map(|v| v.to_f32()).collect(),
        other => return Err(format!("tensor {} is of type {other}, expected a float type", t.name()).into()),
    };
    Ok(b.tensor(&[dim], &widened)?)
}

fn expect(t: &FileTensor<'_>, dims: &[usize]) -> Result<()> {
    if t.dims() == dims {
        return Ok(());
    }
    Err(format!("tensor {} has dimensions {:?}, expected {dims:?}", t.name(), t.dims()).into())
}

/// The file's memory as a tensor of elements or blocks: in place where the backend can.
fn adopt<T: Element, B: Backend>(b: &B, t: &FileTensor<'_>) -> Result<TensorOf<B, T>> {
    let layout = Layout::contiguous(&t.block_dims()?)?;
    Ok(Tensor::new(b.adopt(Arc::new(t.data::<T>()?))?, layout)?)
}
