//! What decoder models share: one bound to ask for, weights of any type, the cache, rope tables.
use crate::Float;
use crate::ops::{
    ActivationOps, AttentionOps, CastOps, CopyOps, ElementwiseOps, EmbeddingOps, IndexOps, LinearOps,
    MatMulOps, NormOps, RopeOps, SoftmaxOps,
};

mod kv_cache;
mod rope_tables;
mod weight;

pub use kv_cache::KvCache;
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
    + EmbeddingOps<T>
    + CastOps<T>
    + CastOps<f32>
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
        + EmbeddingOps<T>
        + CastOps<T>
        + CastOps<f32>
        + IndexOps<T>
        + CopyOps<T>
{
}
