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
/// Weights, tables, masks and indices are of any type that the ops take: no type but `T` stands in the bound.
pub trait Transformer<T: Float>:
    NormOps<T>
    + RopeOps<T>
    + SoftmaxOps<T>
    + AttentionOps<T>
    + ActivationOps<T>
    + ElementwiseOps<T>
    + MatMulOps<T>
    + LinearOps<T>
    + IndexOps<T>
    + CopyOps<T>
{
}
impl<T: Float, B> Transformer<T> for B where
    B: NormOps<T>
        + RopeOps<T>
        + SoftmaxOps<T>
        + AttentionOps<T>
        + ActivationOps<T>
        + ElementwiseOps<T>
        + MatMulOps<T>
        + LinearOps<T>
        + IndexOps<T>
        + CopyOps<T>
{
}

/// A [`Transformer`] whose weights may be of any type a model file holds; see [`Weight`].
pub trait QuantTransformer<T: Float>:
    Transformer<T>
    + QuantOps<T, BlockQ4_0>
    + QuantOps<T, BlockQ8_0>
    + IndexOps<f32>
    + IndexOps<f16>
    + IndexOps<bf16>
    + CastOps<T>
    + CastOps<f32>
{
}
impl<T: Float, B> QuantTransformer<T> for B where
    B: Transformer<T>
        + QuantOps<T, BlockQ4_0>
        + QuantOps<T, BlockQ8_0>
        + IndexOps<f32>
        + IndexOps<f16>
        + IndexOps<bf16>
        + CastOps<T>
        + CastOps<f32>
{
}
