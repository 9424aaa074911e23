//! Vector kernels for transformer operations on the CPU: plain slices in, plain slices out, one thread.
//!
//! Every function takes an [`Isa`], the instruction set to compute with. One binary holds the kernels for all of
//! them; [`Isa::best`] looks at the processor once. Callers split the work over threads.
//!
//! What is here: [`unary`], [`binary`], [`affine`](fn@affine), [`cast`](fn@cast) and [`choose`](fn@choose) element by element; [`rows`]
//! for norms, softmax, rope and reductions of the last dimension; [`gemm`] for matrix products; [`quant`] for products with
//! quantized weights; [`math`] for the functions of a vector; [`map`] and [`Isa::run`] for what is not here.
//!
//! # Instruction sets
//!
//! | [`Isa::name`] | needs | lanes of f32 |
//! |---|---|---:|
//! | `scalar` | nothing: plain Rust for the target's baseline | 4 |
//! | `neon` | NEON, which every 64-bit ARM processor has; [`quant`] is plain Rust on it | 4 |
//! | `avx2` | AVX2, FMA, F16C, BMI | 8 |
//! | `avx512` | AVX-512 F, BW, DQ, VL besides | 16 |
//! | `avx512vnni` | VNNI besides, for [`quant`] | 16 |
//!
//! The environment variable `OPS_SIMD` names a lesser one for [`Isa::best`]; [`Isa::available`] lists all of the processor's, so
//! that tests can go through them.
//!
//! # One way to write a kernel
//!
//! A kernel is a struct that implements [`Kernel`], generic over [`Simd`]; [`Isa::run`] calls the copy that was
//! compiled for the instruction set, a branch on a value and no more. Functions of element types are written over
//! [`Element`], which loads and stores f16 and bf16 a vector at a time. The public functions hand over to code that is not generic, so that
//! kernels are compiled with this crate and keep its optimisation level.
//!
//! The layer is our own and not `pulp` 0.22, which works the same way: pulp has no vectors of f16 and bf16, no
//! rounding, no scaling by powers of two, no interleaving, no streamed stores, and its AVX-512 is behind a feature. Speed and
//! build time do not decide it: an exponential of 2 Mi numbers in the last-level cache took 196 µs on pulp, without subnormal results,
//! and 194 µs here, with them, on one core of a Zen 5.
//!
//! # Streamed stores
//!
//! With [`Store::Stream`] an output is computed in blocks in the first-level cache and copied from there past the caches. It pays for
//! outputs larger than the last-level cache.

mod binary;
mod cast;
mod choose;
mod element;
mod error;
pub mod gemm;
mod isa;
mod map;
pub mod math;
mod memory;
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
