//! Transformer operations on AMD GPUs.
//!
//! [`Rocm`] is a backend of [`ops_core`]: a queue on a device. ROCm's libraries are opened at run time, so the crate
//! builds, documents and tests without ROCm; [`Rocm::new`] then returns an error that says what was searched and what to do.
//!
//! Each op has a list of providers: this project's kernels, and hipBLASLt, rocBLAS and MIOpen where they have the op. Each provider states
//! as a fact, with a reason, whether it can compute a call; the [`Policy`] says whether it may. Nothing falls back silently: see
//! [`Decision`].
//!
//! ```no_run
//! # use ops_core::{Layout, Operand, Operands, Role, DType, ops::{Softmax, SoftmaxOps}, Backend};
//! use ops_rocm::{Policy, Rocm};
//!
//! let gpu = Rocm::builder().policy(Policy::new().order("softmax", ["miopen", "hip"])).build()?;
//! let x = gpu.zeros::<f32>(&[4, 1000])?;
//! let y = gpu.softmax(x.as_ref(), Softmax::axis(-1))?;
//! for decision in gpu.decisions() {
//!     println!("{decision}");
//! }
//! # Ok::<(), ops_core::Error>(())
//! ```
//!
//! [`hip`] is the layer below: devices, streams, events, memory, modules and launches over the HIP runtime.
//!
//! # Layers
//!
//! A module imports only from its own layer and from those before it; `cargo xtask structure` reads this list.
//!
//! 1. `sync`, `fingerprint`, `provider_id`: used by all
//! 2. `hip`, `error`: devices and memory
//! 3. `vendor`, `kernels`, `matrix_check`, `tuned`, `space`, `index_names`: AMD's libraries; this project's compiled kernels; tensors
//! 4. `choice`: policies and decisions, without knowing any op or list of providers
//! 5. `rocm`: the queue
//! 6. `provider`, `backend`, `prepare`, `replay`: how a call finds its provider; memory and transfers
//! 7. `providers`: the lists, and what computes. It checks the names in policies, since it has the lists.
//! 8. `builder`, `survey`, `bridge`: opening a queue; what a machine has

mod backend;
#[cfg(feature = "rocm-rs")]
pub mod bridge;
mod builder;
mod choice;
mod error;
mod fingerprint;
pub mod hip;
mod index_names;
mod kernels;
mod matrix_check;
mod prepare;
mod provider;
mod provider_id;
mod providers;
mod replay;
mod rocm;
mod space;
mod survey;
mod sync;
mod tuned;
mod vendor;

pub use builder::RocmBuilder;
pub use choice::{Candidate, Decision, Library, Policy, PolicyError, Target, Verdict};
pub use hip_sys::loader::Version;
pub use kernels::{
    CacheFolder, CodeObjects, KernelCount, KernelOrigin, KernelSource, LoadedUnit, compile_helper,
};
pub use matrix_check::MatrixCheck;
pub use prepare::Prepared;
pub use provider::{Provider, Providers, explain};
pub use provider_id::ProviderId;
pub use providers::providers_of;
pub use rocm::Rocm;
pub use space::{HipBuffer, HipMut, HipRef, HipSpace};
pub use survey::{Survey, SurveyedDevice, SurveyedLibrary};
pub use vendor::{Denial, denials};

pub use ops_kernels::{KNOBS, Knob, Tuning};

use ops_core::{Error, Result};
