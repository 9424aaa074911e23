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

// A file is a family: its ops, the operands of each in a module of the op's name, and the trait with their methods.
pub use activation::*;
pub use attend::*;
pub use choose::*;
pub use convert::*;
pub use elementwise::*;
pub use functions::*;
pub use index::*;
pub use moves::*;
pub use norm::*;
pub use probabilities::*;
pub use products::*;
pub use quant::*;
pub use rotary::*;

/// `operand` has exactly these extents.
#[inline]
fn extents(op: &'static str, operand: &'static str, got: &Layout, want: &[usize]) -> Result<()> {
    // Element by element: these are a few numbers, and comparing slices calls out to compare memory.
    if got.dims().iter().eq(want) { Ok(()) } else { Err(Error::shape(op, operand, got, format!("{want:?}"))) }
}
