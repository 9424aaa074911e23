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
mod attention;
mod cast;
mod copy;
mod elementwise;
mod index;
mod matmul;
mod norm;
mod quant;
mod rope;
mod softmax;
mod unary;
mod where_;

pub use activation::{ActivationOps, Glu, GluArgs, GluFn, GluOwned, GluShapes};
pub use attention::{Attention, AttentionArgs, AttentionOps, AttentionOwned, AttentionShapes};
pub use cast::{Cast, CastArgs, CastOps, CastOwned, CastShapes};
pub use copy::{Copy, CopyArgs, CopyOps, CopyOwned, CopyShapes, Fill, FillArgs, FillOwned, FillShapes};
pub use elementwise::{
    Affine, AffineArgs, AffineInplace, AffineInplaceArgs, AffineInplaceOwned, AffineInplaceShapes,
    AffineOwned, AffineShapes, Binary, BinaryArgs, BinaryFn, BinaryOwned, BinaryShapes, ElementwiseOps,
};
pub use index::{
    Embedding, EmbeddingArgs, EmbeddingOps, EmbeddingOwned, EmbeddingShapes, IndexOps, IndexSelect,
    IndexSelectArgs, IndexSelectOwned, IndexSelectShapes,
};
pub use matmul::{
    Linear, LinearArgs, LinearOps, LinearOwned, LinearShapes, MatMul, MatMulArgs, MatMulOps, MatMulOwned,
    MatMulShapes,
};
pub use norm::{
    AddRmsNorm, AddRmsNormArgs, AddRmsNormOwned, AddRmsNormShapes, GroupNorm, GroupNormArgs, GroupNormOwned,
    GroupNormShapes, LayerNorm, LayerNormArgs, LayerNormOwned, LayerNormShapes, NormOps, RmsNorm,
    RmsNormArgs, RmsNormOwned, RmsNormShapes,
};
pub use quant::{
    Dequantize, DequantizeArgs, DequantizeOwned, DequantizeShapes, QuantOps, Quantize, QuantizeArgs,
    QuantizeOwned, QuantizeShapes,
};
pub use rope::{
    Rope, RopeArgs, RopeForm, RopeInplace, RopeInplaceArgs, RopeInplaceOwned, RopeInplaceShapes, RopeOps,
    RopeOwned, RopeShapes,
};
pub use softmax::{Softmax, SoftmaxArgs, SoftmaxOps, SoftmaxOwned, SoftmaxShapes};
pub use unary::{Unary, UnaryArgs, UnaryFn, UnaryOwned, UnaryShapes};
pub use where_::{Where, WhereArgs, WhereOps, WhereOwned, WhereShapes};

/// `operand` has exactly these extents.
#[inline]
fn extents(op: &'static str, operand: &'static str, got: &Layout, want: &[usize]) -> Result<()> {
    // Element by element: these are a few numbers, and comparing slices calls out to compare memory.
    if got.dims().iter().eq(want) { Ok(()) } else { Err(Error::shape(op, operand, got, format!("{want:?}"))) }
}
