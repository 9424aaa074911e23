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
//! use rocm_ops::{Float, Result, TensorOf, model::{Transformer, Weight}, ops::*};
//!
//! /// The feed-forward half of a decoder layer, on any backend, in any float type, with weights of any format.
//! fn feed_forward<T: Float, B: Transformer<T>>(
//!     b: &B,
//!     x: &TensorOf<B, T>,
//!     norm: &TensorOf<B, f32>,
//!     [gate, up, down]: [&Weight<B::Space>; 3],
//! ) -> Result<TensorOf<B, T>> {
//!     let h = b.rms_norm(x, norm, 1e-5)?;
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
//!
//! # How a call is checked
//!
//! [`Backend::run`] is the only gate between users and kernels. [`Op::infer`], the op's only shape rule, checks the operands that
//! are read and returns the shapes of those that are written. The gate then checks that every view lies in its memory and that no
//! output overlaps itself, and hands the kernel a [`Call`]. Only this crate makes a `Call`; it binds the arguments to the op for which
//! they were checked, and cannot be rebuilt from its parts.
//!
//! The macro [`operands!`] writes an op's operand list ([`Signature::SLOTS`]) and three functions on which all code that handles
//! arguments rests. [`Signature::for_each_operand`] visits each operand with its memory, for the gate, launches, copies and
//! comparisons.
//! [`Signature::map`] turns arguments into untyped views and back, for [`Either`] and for lending. [`Signature::build`] makes
//! arguments from tensors found by name. Outputs may be of `any` type, as in `quantize`, and may be optional.
//!
//! # Views and types
//!
//! - A view holds [`Space::Ref`] or [`Space::Mut`], which are `&[T]` and `&mut [T]` on the host, so any slice is a tensor and
//!   [`TensorMut::split_at`] can give two disjoint mutable views. [`TensorMut`] is therefore invariant in its lifetime; the family
//!   methods hide that with `shorten` and `reborrow`.
//! - Tensors and views have the same view methods, such as [`narrow`](Tensor::narrow); those of a tensor borrow it. Each changes
//!   the [`Layout`] and checks the result against the memory. The trait [`View`] is for code that is generic over views.
//! - Methods take shapes as [`IntoShape`]: arrays, slices, vectors, one number.
//! - Typed operands of methods are [`AsView`] or [`AsViewMut`], those of any element type [`AsAny`], so methods take tensors as well
//!   as views. Every method that allocates its result has an `_into` form; both are one declaration, and the one that allocates
//!   applies the shape rule once: to allocate, and to check the call.
//! - The type in which an op computes is its only type parameter. Operands of other types are [`AnyRef`], whose element type is a
//!   [`DType`] value; the rule accepts it with [`Operand::require`], and a kernel that supports fewer types declines with
//!   `Operands::require_dtype`. `AnyRef::typed` compares types and returns `None` if they differ. A mistake there could not be
//!   unsound, because the memory is plain data.
//! - `with_type!` is the only macro that turns a type given as a value into a static one. It knows scalars only, so no code is compiled
//!   once for each block format. Ops that move elements of any type ([`TensorCopy`](ops::TensorCopy), `Where`, `IndexSelect`, `Gather`,
//!   `Scatter`) therefore have no type parameter.
//! - [`DType::Block`] holds a [`BlockInfo`]: the name, values and bytes of a block, and functions to decode and encode it. The encoder
//!   is missing for formats that are only read.
//! - Elements are [`bytemuck::Pod`], and other crates may implement [`Element`]. Code that turns a type into a value calls
//!   [`DType::of`], which does not compile if the element's `DTYPE` differs in size from the type.
//! - Scalar types are listed once (`element_types!`), and block formats once ([`quant::FORMATS`]).
//!
//! A packed tensor keeps its element type and extents, so an op's rule, tolerance, name and methods stay the same. Its [`Packing`]
//! belongs to the view; the gate refuses a call whose backend does not read that order ([`Execute::reads`]). An untyped view of a packed
//! tensor gives no strided or typed views, so no kernel can mistake it for a plain one. A packing can be undone, which is how
//! [`Fallback`] and [`Checked`] copy such a weight.
//!
//! # Numbers
//!
//! Kernels load as `T`, compute in `T::Acc` (f32 for 16-bit floats) and store once, rounded to nearest even. Sums are kept in lanes,
//! never in one running scalar. Variance is computed on values shifted by the row's first element, so that a large mean costs no
//! accuracy. Casts narrow from f64 through f32 rounded to odd, so that the result is that of a single rounding.
//!
//! A [`Tolerance`] is exact, or `nmse ≤ base + r · (error of rounding the exact result to T)`. It may depend on the operands, because
//! activations are rounded to 8 bits only with block-quantized weights. When both results have the same type, as in [`Checked`], each
//! side may carry a rounding; the bound is then `(√limit + √ν)²`, where ν is the mean squared rounding error at those values.
//!
//! `sample` compares a running sum with a random number, so one rounding can change the token. `ops/sampling/masses.rs` therefore
//! turns each logit into a 63-bit integer by f32 operations that round alike everywhere; sums of integers are exact in any order. No
//! backend sorts a whole row: only a bound in the sorted order is needed, and histograms find it.
//!
//! # Combinators
//!
//! They work on untyped operands, so most of their code is compiled once. [`Fallback`] copies the extent that a view touches to the
//! second backend, writes back only on success, logs each op and reason once, and has a strict mode. [`Checked`] runs each call on the
//! reference first; it can fail, log, check every n-th call, or be off. While a step is recorded ([`Replay`], [`Backend::capturing`]),
//! transfers, waits, forks and calls that would fall back are refused, and so is recording itself by combinators that a replay would
//! bypass.
//!
//! # Errors
//!
//! There is one enum, [`Error`]; callers branch on [`Error::Unsupported`]. Sizes are checked where they enter ([`Shape::new`]), so that
//! arithmetic on them cannot overflow, and failed allocations are errors.
#![deny(unsafe_code)]

mod any;
mod backend;
mod call;
pub mod combine;
mod determinism;
mod dtype;
mod error;
pub mod group;
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
mod show;
mod space;
mod tensor;
mod tolerance;
mod view;

pub use any::{AnyMut, AnyRef, AnyTensor, AsAny, AsOptional};
pub use backend::{AnyOf, Backend, Execute, HostMemory, Mut, Ref, TensorOf, Tried, range, reads_all};
pub use call::Call;
pub use combine::{Checked, Either, Fallback};
pub use determinism::{Determinism, UnknownDeterminism};
pub use dtype::*;
pub use error::{Error, OfCall, Reason, Result};
pub use layout::{Layout, Positions};
pub use named::NamedTensors;
pub use op::{Op, Signature};
pub use operand::{Borrowed, Operand, OperandInfo, OperandSlot, Operands, Role};
pub use operands::Written;
pub use packing::Packing;
pub use parts::Parts;
pub use replay::Replay;
pub use shape::{IntoShape, MAX_RANK, Shape};
pub use space::{Contains, Space};
pub use tensor::{AsView, AsViewMut, Tensor, TensorMut, TensorRef};
pub use tolerance::{Tolerance, Verdict};
pub use view::View;
