//! The ops, grouped into families, and the methods that users call.
//!
//! Each family is a trait with a blanket implementation over [`Execute`](crate::Execute), so a backend that has the
//! kernels also has the methods. Every op has a method that allocates its output and one that writes into a given view
//! (`_into`). Arguments come in the order inputs, outputs, options.
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

// One file per family, which is named after it.
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

/// The operands of each op, in a module with the op's name: [`args::rms_norm::Args`](rms_norm::Args).
pub mod args {
    pub use super::activation::args::*;
    pub use super::attend::args::*;
    pub use super::batch::args::*;
    pub use super::cache::args::*;
    pub use super::choose::args::*;
    pub use super::convert::args::*;
    pub use super::convolution::args::*;
    pub use super::elementwise::args::*;
    pub use super::experts::args::*;
    pub use super::functions::args::*;
    pub use super::fused::args::*;
    pub use super::gated::args::*;
    pub use super::heads::args::*;
    pub use super::index::args::*;
    pub use super::linear_attention::args::*;
    pub use super::moves::args::*;
    pub use super::norm::args::*;
    pub use super::parametric::args::*;
    pub use super::places::args::*;
    pub use super::pooling::args::*;
    pub use super::probabilities::args::*;
    pub use super::products::args::*;
    pub use super::quant::args::*;
    pub use super::reductions::args::*;
    pub use super::relations::args::*;
    pub use super::resampling::args::*;
    pub use super::rotary::args::*;
    pub use super::routing::args::*;
    pub use super::sampling::args::*;
    pub use super::scan::args::*;
    pub use super::sorting::args::*;
}

/// Checks that `operand` has the element type of `like`. Ops that move elements take any type, but only one at a time.
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
    // Compares element by element: comparing slices would call `memcmp`, which is slower for so few numbers.
    if got.dims().iter().eq(want) { Ok(()) } else { Err(Error::shape(op, operand, got, format!("{want:?}"))) }
}
