//! The ops, and for each family the methods that users call.
//!
//! A family is a trait with a blanket implementation over [`Execute`](crate::Execute): a backend
//! that has the kernels has the methods. Each op has an allocating method and one that writes into
//! a given view (`_into`); arguments read inputs, outputs, options.
//!
//! Ops take operands of equal extents. Where broadcasting is usual, the method does it, through
//! layouts and without a copy.
use crate::{Error, Layout, Result};

mod activation;
mod attend;
mod choose;
mod convert;
mod elementwise;
mod functions;
mod index;
mod moves;
mod norm;
mod probabilities;
mod products;
mod quant;
pub mod registry;
mod rotary;

// A file is a family of ops and the trait with their methods; a module that is exported is the operands of an op.
pub use activation::{ActivationOps, Glu, GluFn, glu};
pub use attend::{Attention, AttentionOps, attention};
pub use choose::{Where, WhereOps, where_};
pub use convert::{Cast, CastOps, cast};
pub use elementwise::{
    Affine, AffineInplace, Binary, BinaryFn, ElementwiseOps, affine, affine_inplace, binary,
};
pub use functions::{Unary, UnaryFn, unary};
pub use index::{Embedding, EmbeddingOps, IndexOps, IndexSelect, embedding, index_select};
pub use moves::{Copy, CopyOps, Fill, copy, fill};
pub use norm::{
    AddRmsNorm, GroupNorm, LayerNorm, NormOps, RmsNorm, add_rms_norm, group_norm, layer_norm, rms_norm,
};
pub use probabilities::{Softmax, SoftmaxOps, softmax};
pub use products::{Linear, LinearOps, MatMul, MatMulOps, linear, matmul};
pub use quant::{Dequantize, QuantOps, Quantize, dequantize, quantize};
pub use rotary::{Rope, RopeForm, RopeInplace, RopeOps, rope, rope_inplace};

/// `operand` has exactly these extents.
#[inline]
fn extents(op: &'static str, operand: &'static str, got: &Layout, want: &[usize]) -> Result<()> {
    // Element by element: these are a few numbers, and comparing slices calls out to compare memory.
    if got.dims().iter().eq(want) { Ok(()) } else { Err(Error::shape(op, operand, got, format!("{want:?}"))) }
}
