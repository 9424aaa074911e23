//! Weights of any type that a model file may contain.
use crate::AnyTensor;

/// The weight matrix `[n, k]` of a linear layer or an embedding table, of any float type or block format. The element type is
/// known only at run time.
///
/// In a block format the extents are `[n, k / values]`, with `values` values per block.
/// [`linear`](crate::ops::LinearMethods::linear) and [`embedding`](crate::ops::EmbeddingMethods::embedding) accept it directly.
pub type Weight<S> = AnyTensor<S>;
