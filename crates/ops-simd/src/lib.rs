//! Vector kernels for transformer operations on the CPU: plain slices in, plain slices out, one thread.
//!
//! Every function takes an [`Isa`], the instruction set to compute with. One binary holds the kernels for all of
//! them; [`Isa::best`] looks at the processor once. Callers split the work over threads.
//!
//! # One way to write a kernel
//!
//! A kernel is a struct that implements [`Kernel`], generic over [`Simd`]; [`Isa::run`] calls the copy that was
//! compiled for the instruction set. The layer is our own and not `pulp` because it needs what pulp 0.22 lacks:
//! f16 and bf16 vectors, scaling by powers of two, masked loads and stores of halves, interleaving, streamed stores.

mod binary;
mod cast;
mod choose;
mod element;
mod error;
pub mod gemm;
mod isa;
mod map;
pub mod math;
pub mod quant;
pub mod rows;
mod scratch;
mod simd;
mod unary;

pub use binary::{Binary, affine, affine_in_place, binary, map};
pub use cast::cast;
pub use choose::choose;
pub use element::{Element, Same, View, ViewMut};
pub use error::Error;
pub use isa::Isa;
pub use map::{Map, Store};
pub use simd::{Kernel, MAX_LANES, Simd, TileKernel};
pub use unary::{Unary, unary, unary_in_place};
