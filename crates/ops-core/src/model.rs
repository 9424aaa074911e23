//! Building blocks of decoder models: a trait bound, weights of any type, caches of keys and values, and rope
//! tables.
use crate::ops::{
    ActivationOps, AttentionOps, CacheOps, CastOps, CopyOps, ElementwiseOps, EmbeddingOps, ExpertOps,
    FillOps, FusedOps, GatedOps, HeadOps, IndexOps, LinearAttentionOps, LinearOps, MatMulOps, NormOps,
    RaggedAttentionOps, ReduceOps, RopeOps, RoutingOps, SamplingOps, SoftmaxOps, SortOps,
};
use crate::{Float, Replay};

mod blocks;
mod cache_rotation;
mod kv_cache;
mod memories;
mod paged_cache;
mod rope_tables;
mod weight;
mod window_cache;

pub use blocks::{BlockCopy, Blocks, Sequence};
pub use cache_rotation::{CacheRotation, Projection, Queries, RowsProduct};
pub use kv_cache::KvCache;
pub use memories::{Memories, MemoriesOfPart, MemoriesOfStep};
pub use paged_cache::PagedCache;
pub use rope_tables::{RopeScaling, RopeTables};
pub use weight::Weight;
pub use window_cache::WindowCache;

/// Everything that a decoder-only transformer computes in `T`, as one trait bound.
///
/// Weights, tables, masks and indices may have any type that the ops accept, so the bound names only `T`, and
/// f32 for the gates and the memory of linear attention. Ops that no model needs, such as
/// [`RandomOps`](crate::ops::RandomOps) and [`ConvOps`](crate::ops::ConvOps), are not in it: add them to your bounds.
///
/// Decoding one token per text makes the same calls at every step, so a backend can record a step ([`Replay`]), or refuse to.
pub trait Transformer<T: Float>:
    Replay
    + NormOps<T>
    + RopeOps<T>
    + SoftmaxOps<T>
    + AttentionOps<T>
    + RaggedAttentionOps<T>
    + ActivationOps<T>
    + ActivationOps<f32>
    + ReduceOps<f32>
    + ElementwiseOps<T>
    + ElementwiseOps<f32>
    + MatMulOps<T>
    + LinearOps<T>
    + EmbeddingOps<T>
    + CastOps<T>
    + CastOps<f32>
    + IndexOps
    + CopyOps
    + FillOps<T>
    + FillOps<f32>
    + RoutingOps<T>
    + ExpertOps<T>
    + GatedOps<T>
    + LinearAttentionOps<T>
    + HeadOps<T>
    + CacheOps<T>
    + CacheOps<f32>
    + FusedOps<T>
    + SamplingOps<f32>
    + SortOps<f32>
{
}
impl<T: Float, B> Transformer<T> for B where
    B: Replay
        + NormOps<T>
        + RopeOps<T>
        + SoftmaxOps<T>
        + AttentionOps<T>
        + RaggedAttentionOps<T>
        + ActivationOps<T>
        + ActivationOps<f32>
        + ReduceOps<f32>
        + ElementwiseOps<T>
        + ElementwiseOps<f32>
        + MatMulOps<T>
        + LinearOps<T>
        + EmbeddingOps<T>
        + CastOps<T>
        + CastOps<f32>
        + IndexOps
        + CopyOps
        + FillOps<T>
        + FillOps<f32>
        + RoutingOps<T>
        + ExpertOps<T>
        + GatedOps<T>
        + LinearAttentionOps<T>
        + HeadOps<T>
        + CacheOps<T>
        + CacheOps<f32>
        + FusedOps<T>
        + SamplingOps<f32>
        + SortOps<f32>
{
}
