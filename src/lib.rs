//! Transformer operations over one trait, for AMD GPUs and the CPU.
//!
//! It is for inference: ops compute forward, models generate text or embed it. There are no gradients, no lazy graph and no server. A
//! backend is a value that every call names, and nothing is copied between memories unless a call says so.
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
//! # Methods
//!
//! Each family is a bound for generic functions, and methods that every backend has ([`ops`] says how). `Reference` and `Cpu` compute
//! all of them in every type; for `Rocm`, `docs/support-rocm.txt` lists the types of each op. Most methods also have a form that writes to a
//! given tensor, such as `softmax_into`.
//!
//! <!-- methods -->
//! <!-- end -->
//!
//! # Features
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
//!
//! # Debug builds
//!
//! Without optimisation, kernels for the CPU are many times slower. These lines in a program's `Cargo.toml` optimise its dependencies
//! and leave its own code debuggable:
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! ```
//!
//! # Threads and async
//!
//! A backend is a cheap handle that threads may share and clone; [`Backend::fork`] makes a further queue. `Cpu` computes on rayon's threads
//! (`RAYON_NUM_THREADS`, or the caller's pool) and returns when it is done. `Rocm` enqueues and returns; reading a tensor waits. So in an async program a
//! step of a model blocks the worker that runs it: give it a thread of its own, or `spawn_blocking`.
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
