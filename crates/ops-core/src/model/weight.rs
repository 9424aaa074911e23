//! A weight of any type a model file holds.
use crate::AnyTensor;

/// The weight matrix `[n, k]` of a linear layer or an embedding table, of any float type or block format: the tensor
/// whose element type is a value.
///
/// Of blocks the extents are `[n, k / values]`. [`linear`](crate::ops::LinearOps::linear) and
/// [`embedding`](crate::ops::EmbeddingOps::embedding) take it as it is.
pub type Weight<S> = AnyTensor<S>;
