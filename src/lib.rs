//! Transformer operations over one trait, for AMD GPUs and the CPU.
//!
//! It is for inference: ops compute forward, models generate text or embed it. There are no gradients, no lazy graph and no server. Every
//! call is a method of a backend: `b.softmax(&x, -1)`. Nothing is copied between memories unless a call says so. `Cpu`, `Reference` and
//! `Checked<Cpu, Reference>` all compute in host memory, so a tensor of one works with the others.
//!
//! This crate gathers the others: the traits, tensors and ops of [`ops_core`], the two CPU backends of
//! [`ops_cpu`], `Rocm` for AMD GPUs (ROCm is not needed to build), model files and the models in them. Programs can import
//! [`prelude`]; authors of backends and ops find the rest in [`backend`]. Write a function over `B: Backend`, or over an op
//! family, and choose the backend where you call it:
//!
//! ```
//! use rocm_ops::prelude::*;
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
//! A family is two traits: `NormOps<T>`, a bound for your generic functions, and `NormMethods`, whose methods you call; the prelude
//! imports both ([`ops`] says more). `docs/candle.md` lists candle's functions with the methods here. `Reference` and `Cpu` compute
//! every op in all types that it accepts; for `Rocm`, `docs/support-rocm.txt` lists the types of each op. Most methods also have a form that writes to a
//! given tensor, such as `softmax_into`.
//!
//! <!-- methods -->
//! | bound | methods |
//! |---|---|
//! | `ActivationOps` | `unary`, `sigmoid`, `silu`, `gelu`, `gelu_erf`, `tanh`, `erf`, `exp`, `expm1`, `log`, `log1p`, `softplus`, `sin`, `cos`, `sqrt`, `recip`, `floor`, `ceil`, `round`, `trunc`, `glu`, `swiglu`, `geglu` |
//! | `ArangeOps` | `arange` |
//! | `AttentionOps` | `attention`, `attention_with`, `attention_lse` |
//! | `BatchNormOps` | `batch_norm` |
//! | `BitwiseOps` | `bitwise`, `bitwise_and`, `bitwise_or`, `bitwise_xor`, `shift_left`, `shift_right`, `bitwise_not` |
//! | `CacheOps` | `cache_write`, `rope_cache_write`, `qk_norm_rope_cache_write`, `rope_qk_cache_write`, `rms_norm_linear_rope_cache_write`, `fuses_rms_norm_linear_rope_cache_write` |
//! | `CastOps` | `cast` |
//! | `CompareOps` | `compare`, `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `logical_and`, `logical_or`, `logical_xor`, `logical_not` |
//! | `ConvOps` | `conv1d`, `conv2d`, `conv_transpose1d`, `conv_transpose2d` |
//! | `CopyOps` | `copy_of`, `copy_of_any`, `cat`, `stack` |
//! | `ElementwiseOps` | `binary`, `add`, `sub`, `mul`, `div`, `maximum`, `minimum`, `pow`, `neg`, `abs`, `sqr`, `relu`, `sign`, `affine`, `affine_inplace` |
//! | `EmbeddingOps` | `embedding` |
//! | `ExpertOps` | `linear_experts`, `linear_experts_swiglu`, `linear_experts_combine`, `fuses_linear_experts_swiglu`, `fuses_linear_experts_combine` |
//! | `FillOps` | `fill`, `full`, `ones` |
//! | `FusedOps` | `linear_swiglu`, `linear_add`, `rms_norm_linear`, `rms_norm_linear_swiglu`, `fuses_linear_swiglu`, `fuses_linear_add`, `fuses_rms_norm_linear`, `fuses_rms_norm_linear_swiglu` |
//! | `GatedOps` | `l2_norm`, `gated_rms_norm`, `swiglu_clamped` |
//! | `GatherOps` | `gather`, `scatter` |
//! | `HeadOps` | `qk_norm_rope`, `qk_norm_rope_at` |
//! | `IndexOps` | `index_select` |
//! | `LinearAttentionOps` | `conv1d_update`, `gated_delta_rule` |
//! | `LinearOps` | `linear`, `linear_bias`, `pack_weight` |
//! | `MatMulOps` | `matmul` |
//! | `NormOps` | `rms_norm`, `layer_norm`, `add_rms_norm`, `group_norm` |
//! | `ParametricOps` | `clamp`, `powf`, `elu` |
//! | `PoolOps` | `max_pool2d`, `avg_pool2d` |
//! | `QuantOps` | `quantize`, `dequantize` |
//! | `RaggedAttentionOps` | `attention_varlen`, `attention_varlen_lse`, `attention_paged`, `attention_paged_lse` |
//! | `RandomOps` | `random` |
//! | `ReduceOps` | `sum`, `max`, `min`, `prod`, `mean`, `argmax`, `argmin` |
//! | `RopeOps` | `rope`, `rope_inplace`, `rope_at`, `rope_at_inplace` |
//! | `RoutingOps` | `router_topk`, `combine_experts` |
//! | `SamplingOps` | `sample` |
//! | `ScanOps` | `cumsum`, `cumprod` |
//! | `ScatterAddOps` | `scatter_add`, `index_add` |
//! | `SoftmaxOps` | `softmax` |
//! | `SortOps` | `sort`, `argsort`, `topk` |
//! | `UpsampleOps` | `upsample_nearest1d`, `upsample_nearest2d`, `upsample_bilinear2d` |
//! | `WhereOps` | `where_` |
//! <!-- end -->
//!
//! # Errors
//!
//! A function that returns this crate's [`Result`] can use `?` on everything: ops, files, tokenizers, models, and [`std::io`]. Branch on
//! [`Error::Unsupported`], for an op, and [`Error::NoDevice`], for a machine without a GPU, to try another backend. Messages name the op or file, what
//! it got and what it wanted. Modules have types of their own, such as `gguf::Error` and `models::Error`: to tell their cases apart, call
//! `downcast_ref` on what [`Error::Other`] carries.
//!
//! # Features
//!
//! Each of these features can be switched off, and its dependencies go with it. These are on by default; `aot`, for kernels compiled with the
//! program, and `rocm-rs`, a bridge to that crate, are not.
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
//! A backend is a cheap handle that threads may share and clone; [`Backend::fork`] makes a further queue. `Cpu` computes on the pool of
//! `Cpu::builder().threads(n)`, else on the rayon pool that the caller runs in, else on the global one (`RAYON_NUM_THREADS`), and returns when it is
//! done. `Rocm` enqueues and returns; reading a tensor waits. In an async program, a step of a model therefore blocks the worker that runs
//! it: give it a thread of its own, or `spawn_blocking`.
pub mod backend;
pub mod prelude;

pub use ops_core::{
    AnyMut, AnyOf, AnyRef, AnyTensor, AsAny, AsOptional, AsView, AsViewMut, Backend, BlockInfo, Checked,
    DType, Determinism, Either, Element, Error, ErrorBudget, F8E4M3, Fallback, Float, HostMemory, Index,
    Integer, IntoShape, Layout, MAX_RANK, Mask, Mut, Num, OfCall, Positions, Reason, Ref, Replay, Result,
    Scalar, Shape, Space, Tensor, TensorMut, TensorOf, TensorRef, UnknownDeterminism, View, Wide, bf16,
    combine, f16, group, model, ops, quant, replay,
};
pub use ops_cpu::{Activations, Cpu, CpuBuilder, EitherHost, Host, HostBuffer, HostGroup, Reference};

#[cfg(feature = "gguf")]
pub use ops_gguf as gguf;
#[cfg(feature = "models")]
pub use ops_models as models;
#[cfg(feature = "rocm")]
pub use ops_rocm::{self as rocm, Decision, Policy, ProviderId, Rocm};
