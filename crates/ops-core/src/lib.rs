//! The op traits, tensors and shape rules that all backends share.
//!
//! There are four concepts:
//!
//! * a [`Space`] is a kind of memory;
//! * a [`Backend`] is a cheap handle to a queue that computes in that memory;
//! * an [`Op`] is a plain struct of options that knows its operands, its shape rule and the accuracy it promises;
//! * [`Execute`] connects the last two: `impl Execute<RmsNorm<f32>> for MyGpu` is a kernel.
//!
//! Users do not see [`Execute`]. They call the methods of op families ([`ops`]), which every backend that has
//! the kernels gets, and write functions with a single bound:
//!
//! ```
//! use ops_core::{Float, Result, TensorOf, model::{Transformer, Weight}, ops::*};
//!
//! /// The feed-forward half of a decoder layer, on any backend, in any float type, with weights of any format.
//! fn feed_forward<T: Float, B: Transformer<T>>(
//!     b: &B,
//!     x: &TensorOf<B, T>,
//!     norm: &TensorOf<B, f32>,
//!     [gate, up, down]: [&Weight<B::Space>; 3],
//! ) -> Result<TensorOf<B, T>> {
//!     let h = b.rms_norm(x, norm, RmsNorm::eps(1e-5))?;
//!     let h = b.swiglu(b.linear(&h, gate)?, b.linear(&h, up)?)?;
//!     b.add(x, b.linear(&h, down)?)
//! }
//! ```
//!
//! Backends compose. [`Fallback`] runs unsupported ops on a second backend, [`Checked`] runs every op twice
//! and compares the results, and [`Either`] chooses a backend at run time. Each has a single implementation
//! that covers every op, including future ops and those of other crates.
//!
//! All checks happen here, once per call. [`Backend::run`] applies the op's shape rule and checks that every view lies inside
//! its memory before a kernel sees it. This crate does no I/O, starts no threads and has no unsafe code.
#![deny(unsafe_code)]

mod any;
mod backend;
mod call;
pub mod combine;
mod determinism;
mod dtype;
mod error;
mod layout;
pub mod model;
mod named;
mod op;
mod operand;
mod operands;
pub mod ops;
mod option;
mod packing;
mod parts;
pub mod quant;
mod read;
pub mod replay;
mod shape;
mod space;
mod tensor;
mod tolerance;

pub use any::{AnyMut, AnyRef, AnyTensor, AsAny};
pub use backend::{AnyOf, Backend, Execute, HostMemory, Mut, Ref, TensorOf, range, reads_all};
pub use call::Call;
pub use combine::{Checked, Either, Fallback};
pub use determinism::{Determinism, UnknownDeterminism};
pub use dtype::*;
pub use error::{Error, Reason, Result};
pub use layout::{Layout, Positions};
pub use named::NamedTensors;
pub use op::{Op, Signature};
pub use operand::{Borrowed, Operand, OperandInfo, OperandSlot, Operands, Role};
pub use operands::Written;
pub use packing::Packing;
pub use parts::Parts;
pub use replay::Replay;
pub use shape::{MAX_RANK, Shape};
pub use space::{Contains, Space};
pub use tensor::{AsView, AsViewMut, Tensor, TensorMut, TensorRef, View};
pub use tolerance::{Tolerance, Verdict};
