//! What decoder models share: one bound to ask for, weights of any type, the cache, rope tables.
use crate::ops::{
    ActivationOps, AttentionOps, CastOps, CopyOps, ElementwiseOps, IndexOps, LinearOps, MatMulOps, NormOps,
    QuantOps, RopeOps, SoftmaxOps,
};
use crate::quant::{BlockQ4_0, BlockQ8_0};
use crate::{Float, bf16, f16};

mod kv_cache;
mod packed;
mod rope_tables;
mod weight;

pub use kv_cache::KvCache;
pub use packed::{CheckedWeight, KeepsWeights, PackWeights, matrix};
pub use rope_tables::{RopeScaling, RopeTables};
pub use weight::Weight;

/// Everything a decoder-only transformer computes in `T`: the one bound that a model names.
///
/// Norm weights and rope tables may be in `T` or in f32.
pub trait Transformer<T: Float>:
    NormOps<T>
    + NormOps<T, f32>
    + RopeOps<T>
    + RopeOps<T, f32>
    + SoftmaxOps<T>
    + AttentionOps<T>
    + ActivationOps<T>
    + ElementwiseOps<T>
    + MatMulOps<T>
    + IndexOps<T>
    + CopyOps<T>
{
}
impl<T: Float, B> Transformer<T> for B where
    B: NormOps<T>
        + NormOps<T, f32>
        + RopeOps<T>
        + RopeOps<T, f32>
        + SoftmaxOps<T>
        + AttentionOps<T>
        + ActivationOps<T>
        + ElementwiseOps<T>
        + MatMulOps<T>
        + IndexOps<T>
        + CopyOps<T>
{
}

/// A [`Transformer`] whose weights may be of any type a model file holds; see [`Weight`].
pub trait QuantTransformer<T: Float>:
    Transformer<T>
    + LinearOps<T, f32>
    + LinearOps<T, f16>
    + LinearOps<T, bf16>
    + QuantOps<T, BlockQ4_0>
    + QuantOps<T, BlockQ8_0>
    + IndexOps<f32>
    + IndexOps<f16>
    + IndexOps<bf16>
    + CastOps<f32, T>
    + CastOps<f16, T>
    + CastOps<bf16, T>
    + CastOps<T, f32>
{
}
impl<T: Float, B> QuantTransformer<T> for B where
    B: Transformer<T>
        + LinearOps<T, f32>
        + LinearOps<T, f16>
        + LinearOps<T, bf16>
        + QuantOps<T, BlockQ4_0>
        + QuantOps<T, BlockQ8_0>
        + IndexOps<f32>
        + IndexOps<f16>
        + IndexOps<bf16>
        + CastOps<f32, T>
        + CastOps<f16, T>
        + CastOps<bf16, T>
        + CastOps<T, f32>
{
}
