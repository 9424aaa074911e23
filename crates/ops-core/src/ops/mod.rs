//! The ops, grouped into families, and the methods that users call.
//!
//! Each family is a trait with a blanket implementation over [`Execute`](crate::Execute), so a backend gets
//! the methods with the kernels. Every op has a method that allocates its output and one that writes into a
//! given view (`_into`). Arguments come in the order inputs, outputs, options.
//!
//! Ops require operands of equal extents. Where users expect broadcasting, the method broadcasts through layouts, without a copy.
use crate::{DType, Error, Layout, Operand, Result};

mod activation;
mod angles;
mod attend;
mod axes;
mod batch;
mod cache;
mod choose;
mod convert;
mod convolution;
mod elementwise;
mod experts;
mod functions;
mod fused;
mod gated;
mod heads;
mod index;
mod linear_attention;
mod moves;
mod norm;
mod parametric;
mod places;
mod pooling;
mod probabilities;
mod products;
mod quant;
mod reductions;
pub mod registry;
mod relations;
mod resampling;
mod rotary;
mod routing;
mod sampling;
mod scan;
mod sorting;

// One file per family. Each op's operands are in a module with the op's name.
pub use activation::*;
pub use attend::*;
pub use axes::*;
pub use batch::*;
pub use cache::*;
pub use choose::*;
pub use convert::*;
pub use convolution::*;
pub use elementwise::*;
pub use experts::*;
pub use functions::*;
pub use fused::*;
pub use gated::*;
pub use heads::*;
pub use index::*;
pub use linear_attention::*;
pub use moves::*;
pub use norm::*;
pub use parametric::*;
pub use places::*;
pub use pooling::*;
pub use probabilities::*;
pub use products::*;
pub use quant::*;
pub use reductions::*;
pub use relations::*;
pub use resampling::*;
pub use rotary::*;
pub use routing::*;
pub use sampling::*;
pub use scan::*;
pub use sorting::*;

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
