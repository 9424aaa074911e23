//! Transformer operations over one trait, for AMD GPUs and the CPU.
//!
//! This crate gathers the others: the traits, tensors and ops of [`ops_core`], the two CPU backends of
//! [`ops_cpu`], `Rocm` for AMD GPUs (ROCm is not needed to build), model files and the models in them. Programs can import
//! [`prelude`]; authors of backends and ops find the rest in [`backend`]. Write a function over `B: Backend`, or over an op
//! family, and choose the backend where you call it:
//!
//! ```
//! use rocm_ops::{Checked, Reference, prelude::*};
//!
//! fn mix<B: MatMulOps<f32> + ActivationOps<f32>>(b: &B) -> Result<Vec<f32>> {
//!     let x = b.tensor([2, 2], &[1.0, 2.0, 3.0, 4.0])?;
//!     let y = b.silu(b.matmul(&x, &x)?)?;
//!     y.to_vec(b)
//! }
//!
//! # fn main() -> Result<()> {
//! let fast = mix(&Cpu::new())?;
//! // The same function, every op compared with the reference as it runs.
//! let checked = mix(&Checked::new(Cpu::new(), Reference::new()))?;
//! assert_eq!(fast, checked);
//! # Ok(()) }
//! ```
//!
//! Each of these features can be switched off, and its dependencies go with it. All are on by default.
//!
//! | feature | what it adds | needs |
//! |---|---|---|
//! | `gguf` | `gguf`: reading and writing GGUF files | |
//! | `models` | `models`: decoders and sentence encoders, from GGUF files and Hugging Face folders; tensors of safetensors files | `gguf` |
//! | `tokenizer` | `gguf::Tokenizer`; with `models`, `models::TextModel`, which generates text | `gguf` |
//! | `chat` | `models::Chat`: conversations, by the templates of models | `models`, `tokenizer` |
//! | `rocm` | `Rocm`: AMD GPUs | |
pub mod backend;
pub mod prelude;

pub use ops_core::{
    AnyMut, AnyOf, AnyRef, AnyTensor, AsAny, AsOptional, AsView, AsViewMut, Backend, BlockInfo, Checked,
    DType, Determinism, Either, Element, Error, ErrorBudget, F8E4M3, Fallback, Float, HostMemory, Index,
    Integer, IntoShape, Layout, MAX_RANK, Mask, Mut, Num, OfCall, Positions, Reason, Ref, Replay, Result,
    Scalar, Shape, Tensor, TensorMut, TensorOf, TensorRef, UnknownDeterminism, View, Wide, bf16, combine,
    f16, model, ops, quant, replay,
};
pub use ops_cpu::{Activations, Cpu, CpuBuilder, EitherHost, Host, HostBuffer, Reference};

#[cfg(feature = "gguf")]
pub use ops_gguf as gguf;
#[cfg(feature = "models")]
pub use ops_models as models;
#[cfg(feature = "rocm")]
pub use ops_rocm::{self as rocm, Decision, Policy, ProviderId, Rocm};

#[cfg(all(doctest, feature = "chat"))]
#[doc = include_str!("../docs/run-your-model.md")]
struct RunYourModel;

#[cfg(all(doctest, feature = "chat"))]
#[doc = include_str!("../docs/five-tasks.md")]
struct FiveTasks;

// The README's code compiles and runs.
#[cfg(all(doctest, feature = "rocm"))]
#[doc = include_str!("../README.md")]
struct Readme;
