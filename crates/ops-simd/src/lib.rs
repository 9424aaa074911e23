//! Vector kernels for transformer operations on the CPU. They work on plain slices, on one thread.
//!
//! ```
//! use ops_simd::gemm::{Mat, MatMut, gemm};
//! use ops_simd::{Isa, Store, Unary, rows, unary};
//!
//! # fn main() -> Result<(), ops_simd::Error> {
//! let isa = Isa::best();
//!
//! let mut y = [0.0f32; 4];
//! unary(isa, Unary::Relu, &[-1.0f32, 0.0, 1.0, 2.0], &mut y, Store::Cached)?;
//! assert_eq!(y, [0.0, 0.0, 1.0, 2.0]);
//!
//! // Two rows of two numbers; each row becomes probabilities.
//! rows::softmax(isa, &[0.0f32, 0.0, 5.0, 5.0], 2, &mut y, Store::Cached)?;
//! assert_eq!(y, [0.5; 4]);
//!
//! let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], [0.0f32, 1.0, 1.0, 0.0]);
//! gemm(isa, Mat::row_major(&a, 2, 2)?, Mat::row_major(&b, 2, 2)?, MatMut::new(&mut y, 2, 2, 2)?, false)?;
//! assert_eq!(y, [2.0, 1.0, 4.0, 3.0]);
//! # Ok(()) }
//! ```
//!
//! Every function takes an [`Isa`], the instruction set to compute with. One binary holds the kernels for all of
//! them, and [`Isa::best`] detects the processor's features once. Callers split the work over threads.
//!
//! - Elementwise: [`unary`], [`parametric`](fn@parametric), [`binary`], [`swiglu_clamped`], [`affine`](fn@affine), [`normalize`](fn@normalize), [`cast`](fn@cast), [`choose`](fn@choose) and
//!   [`compare`](fn@compare).
//! - [`rows`]: norms, softmax, rope and reductions over the last dimension.
//! - [`gemm`]: matrix products, also with the shifted copies of an image that a convolution multiplies.
//! - [`stencil`](fn@stencil): weighted sums of shifted rows.
//! - [`quant`]: products with quantized weights.
//! - [`math`]: elementary functions of a vector.
//! - [`map`] and [`Isa::run`]: for kernels of your own.
//!
//! # Instruction sets
//!
//! | [`Isa::name`] | requires | f32 lanes |
//! |---|---|---:|
//! | `scalar` | nothing: plain Rust for the target's baseline | 4 |
//! | `neon` | NEON, which every 64-bit ARM processor has | 4 |
//! | `neondotprod` | also dot products of bytes, for [`quant`] | 4 |
//! | `neoni8mm` | also products of matrices of bytes, for [`quant`] | 4 |
//! | `avx2` | AVX2, FMA, F16C, BMI; [`quant`] also uses AVX-VNNI where the processor has it | 8 |
//! | `avx512` | also AVX-512 F, BW, DQ and VL | 16 |
//! | `avx512vnni` | also VNNI, for [`quant`] | 16 |
//!
//! The environment variable `OPS_SIMD` limits what [`Isa::best`] returns; [`Isa::from_env`] checks it. [`Isa::available`] lists every instruction set of
//! the processor, so that tests can cover them all.
//!
//! With `avx512vnni`, products of quantized and of bf16 weights with many rows use the processor's matrix units (AMX) where Linux
//! permits it: [`Isa::matrix_units`]. `OPS_SIMD=avx512vnni` turns them off. Products of quantized weights have the same bits
//! either way. AMX and AVX-VNNI are not separate instruction-set levels: only products use them and check at run time, so no other
//! kernel is compiled again. A thread holds the matrix unit's configuration during one product.
//!
//! # How kernels are written
//!
//! A kernel is a struct that implements [`VectorFn`], generic over [`Simd`]. [`Isa::run`] calls the copy that was compiled for
//! the instruction set, at the cost of one branch. Functions of element types are generic over [`Element`], which loads and
//! stores f16 and bf16 one vector at a time. The public functions forward to code that is not generic, so that the kernels
//! are compiled in this crate and keep its optimisation level.
//!
//! Why not `pulp`, which works the same way? pulp 0.22 has no f16 or bf16 vectors, no rounding, no scaling by powers of two,
//! no interleaving and no streamed stores, and its AVX-512 support is behind a feature. Speed and build time are equal: an
//! exponential of 2 Mi numbers in the last-level cache took 196 µs with pulp, without subnormal results, and 194 µs here,
//! with them, on one core of a Zen 5.
//!
//! # Streamed stores
//!
//! With [`Store::Stream`], an output is computed in blocks in the L1 cache and written from there with non-temporal stores.
//! This pays for outputs larger than the last-level cache.

#[cfg(target_arch = "x86_64")]
mod amx;
mod batch_norm;
mod binary;
mod cast;
mod compare;
mod element;
mod error;
mod gated;
pub mod gemm;
mod isa;
mod map;
pub mod math;
#[cfg(target_arch = "x86_64")]
mod matrix_units;
mod memory;
mod parametric;
pub mod quant;
pub mod rows;
mod scratch;
mod simd;
mod stencil;
mod store;
mod unary;
mod where_;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use batch_norm::{Normalize, normalize};
pub use binary::{Binary, affine, affine_in_place, binary, map};
pub use cast::cast;
pub use compare::{Compare, Number, compare};
pub use element::{Element, TypedOperands, View, ViewMut};
pub use error::Error;
pub use gated::{SwigluClamped, swiglu_clamped};
pub use isa::{Isa, UnknownIsa};
pub use map::Map;
pub use memory::prefetch;
pub use parametric::{Parametric, parametric};
pub use simd::{MAX_LANES, Simd, TileKernel, VectorFn};
pub use stencil::{Stencil, stencil};
pub use store::Store;
pub use unary::{Unary, unary, unary_in_place};
pub use where_::choose;
