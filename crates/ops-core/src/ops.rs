//! The ops, grouped into families, and the methods that users call.
//!
//! Each family is two traits. `NormOps<T>` is a bound: every backend has it that has the kernels ([`Execute`](crate::Execute)).
//! `NormMethods` has the methods; each backend has them, and each method requires the family for the type of its operands.
//! So `use rocm_ops::ops::*` makes all methods available, their type parameters are inferred, and where no operand tells the
//! type, it is given to the method or to the options: `b.cast::<f32>(&x)`, `Random::<f32>::uniform(7)`. Options that one number makes may be given as the number:
//! `b.softmax(&x, -1)` is `b.softmax(&x, Softmax::axis(-1))`.
//!
//! An optional operand is passed as the tensor or as `None`: `b.layer_norm(&x, None, &bias, 1e-5)`. Attention, which has three,
//! takes them in one struct whose default has none: `AttentionExtras::new().mask(&mask)`. Operands that belong together
//! have a struct with names, such as [`KeysValues`] and [`Starts`].
//!
//! Most ops have a method that allocates its output and one that writes into a
//! given view (`_into`). Arguments come in the order inputs, outputs, options.
//!
//! Ops require operands of equal extents. Where users expect broadcasting, the method broadcasts through layouts, without a copy.
use crate::error::About;
use crate::{DType, Error, Layout, Operand, Result, Shape};

mod activation;
mod angles;
mod attention;
mod axes;
mod batch_norm;
mod bitwise;
mod cache;
mod cast;
mod compare;
mod conv;
mod copy;
mod declare;
mod elementwise;
mod experts;
mod gated;
mod index;
mod linear_attention;
mod matmul;
mod norm;
mod options;
mod parametric;
mod pool;
mod qk_norm_rope;
mod quant;
mod reduce;
pub mod registry;
mod rope;
mod routing;
mod sampling;
mod scan;
mod scatter;
mod softmax;
mod sort;
mod upsample;
mod where_;

// One file per family, which is named after it.
pub use activation::*;
pub use attention::*;
pub use axes::*;
pub use batch_norm::*;
pub use bitwise::*;
pub use cache::*;
pub use cast::*;
pub use compare::*;
pub use conv::*;
pub use copy::*;
pub use elementwise::*;
pub use experts::*;
pub use gated::*;
pub use index::*;
pub use linear_attention::*;
pub use matmul::*;
pub use norm::*;
pub use parametric::*;
pub use pool::*;
pub use qk_norm_rope::*;
pub use quant::*;
pub use reduce::*;
pub use rope::*;
pub use routing::*;
pub use sampling::*;
pub use scan::*;
pub use scatter::*;
pub use softmax::*;
pub use sort::*;
pub use upsample::*;
pub use where_::*;

/// The operands of each op, in a module with the op's name: [`args::rms_norm::Args`].
pub mod args {
    pub use super::activation::args::*;
    pub use super::attention::args::*;
    pub use super::attention::paged::args::*;
    pub use super::attention::varlen::args::*;
    pub use super::batch_norm::args::*;
    pub use super::bitwise::args::*;
    pub use super::cache::args::*;
    pub use super::cast::args::*;
    pub use super::compare::args::*;
    pub use super::conv::args::*;
    pub use super::copy::arange::args::*;
    pub use super::copy::args::*;
    pub use super::elementwise::args::*;
    pub use super::elementwise::unary::args::*;
    pub use super::experts::args::*;
    pub use super::gated::args::*;
    pub use super::index::args::*;
    pub use super::linear_attention::args::*;
    pub use super::matmul::args::*;
    pub use super::matmul::fused::args::*;
    pub use super::norm::args::*;
    pub use super::parametric::args::*;
    pub use super::pool::args::*;
    pub use super::qk_norm_rope::args::*;
    pub use super::quant::args::*;
    pub use super::reduce::args::*;
    pub use super::rope::args::*;
    pub use super::routing::args::*;
    pub use super::sampling::args::*;
    pub use super::scan::args::*;
    pub use super::scatter::args::*;
    pub use super::softmax::args::*;
    pub use super::sort::args::*;
    pub use super::upsample::args::*;
    pub use super::where_::args::*;
}

/// Checks that `operand` has the element type of `like`. Ops that move elements accept any type, but all
/// their operands must have the same.
#[inline]
fn same_type(op: &'static str, operand: &'static str, got: DType, like: Operand<'_>) -> Result<()> {
    if got == like.dtype {
        return Ok(());
    }
    let want = match like.name {
        "x" => "the type of `x`",
        "dst" => "the type of `dst`",
        _ => "the type of `on_true`",
    };
    Err(Error::DType { op, operand, got, want })
}

/// Checks that `operand` has exactly the extents `want`.
#[inline]
fn extents(op: &'static str, operand: &'static str, got: &Layout, want: &[usize]) -> Result<()> {
    // Compares element by element: comparing slices would call `memcmp`, which is slower for a few numbers.
    if got.dims().iter().eq(want) { Ok(()) } else { Err(Error::shape(op, operand, got, format!("{want:?}"))) }
}

/// The shape to which the operands `a` and `b` of an op broadcast together.
fn broadcast(op: &'static str, a: &Layout, b: &Layout) -> Result<Shape> {
    a.shape().broadcast_with(&b.shape()).about(op, "a and b")
}
