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
//! use rocm_ops::prelude::*;
//! use rocm_ops::rocm::{Policy, Rocm};
//!
//! let gpu = Rocm::builder().policy(Policy::new().order("softmax", ["miopen", "hip"])).build()?;
//! let x = gpu.zeros::<f32>(&[4, 1000])?;
//! let y = gpu.softmax(x.as_ref(), Softmax::axis(-1))?;
//! for decision in gpu.decisions() {
//!     println!("{decision}");
//! }
//! # Ok::<(), rocm_ops::Error>(())
//! ```
//!
//! [`hip`] is the layer below: devices, streams, events, memory, modules and launches over the HIP runtime.
//!
//! # Layers
//!
//! A module imports only from its own layer and from those before it; `cargo xtask structure` reads this list.
//!
//! 1. `sync`, `fingerprint`, `provider_id`, `own_files`, `own_program`: used by all
//! 2. `hip`, `error`: devices and memory
//! 3. `vendor`, `kernels`, `space`, `index_names`: AMD's libraries; this project's compiled kernels; tensors
//! 4. `choice`: policies and decisions, without knowing any op or list of providers
//! 5. `tuned`, `rocm`: what was measured on a device; the queue
//! 6. `provider`, `backend`, `prepare`, `replay`, `matrix_check`: how a call is matched with its provider; memory and transfers
//! 7. `providers`: the lists and the implementations. It checks the names in policies, since it has the lists.
//! 8. `builder`, `survey`, `bridge`, `group`: opening a queue; what a machine has; collectives
//!
//! # The C interface
//!
//! `hip-sys` and its siblings are opened at run time and return a result per symbol. `hip::result` turns codes into errors, and the types
//! in [`hip`] own what they must not outlive.
//!
//! # Choice
//!
//! The first provider of the list that can and may compute a call is chosen. In the default order a provider may let others go first for
//! a problem, with a reason: the libraries do so for products of few rows. Some facts only the library knows, such as whether hipBLASLt
//! has a kernel, so it is asked (`Provider::probe`) before its provider is chosen. Decisions are cached, traced, and explained by
//! `ops explain`. A vendor library is one module and one row of `vendor`: how to open it, whether it has kernels for the device, its
//! handle, and the problems for which it is known to be wrong ([`Denial`]).
//!
//! # Launches
//!
//! A launch formats and allocates nothing. The key of the decision cache has 128 bits; it hashes the op's type, its options
//! (`Op::hash_options`), and the type and layout of every operand. Each kernel instance has an index, by which its compiled function is
//! found. Operands are bound in place, because moving them costs more than filling them. `tools/ci/launch.sh` counts the instructions of
//! a call on the stand-in under valgrind, without HIP's own functions, and fails above a budget or if a call allocates. The budget in
//! time is 400 ns per call.
//!
//! [`Rocm::prepare`] finds the kernels of a model by rehearsal: it makes the model's own calls and notes kernels instead of launching
//! them, so no list of ops has to be kept. hipRTC holds a lock for a whole source, so threads gain nothing and helpers are processes.
//!
//! # Memory
//!
//! When an allocation fails, cached memory is freed and the allocation is retried. Modules, streams and vendor libraries take device
//! memory too, so their calls do the same (`Device::with_room`). rocBLAS works in memory of ours, so that it counts in `MemoryStats` and
//! in the cap.
//!
//! # Order between queues
//!
//! A queue waits for a write, not for the queue that wrote. Each buffer remembers its last uses as points in the work of their streams. A
//! stream waits once for such a point, by an event that others share, and not at all for what the host has seen done. Uploads leave an
//! event anyway. Behind other writes an event is recorded only when another queue first needs it, so that queue also waits for what was
//! enqueued in between; an event behind every write would cost every launch more than the rest of the call.
//!
//! A backend on a stream of `rocm-rs` can be cloned and sent to other threads, so no lifetime prevents it from outliving that stream.
//! `Bridge::scope` ends the loan instead: it waits for calls in progress and for the stream, and any later use of a clone, event or buffer
//! is an error that does not touch the stream. HIP is not asked about such streams, because AMD's runtime follows an event to its stream,
//! which its owner may have destroyed or may be capturing. Whether a copy there is done is known from the waits that happened anyway.
//!
//! # Recorded steps
//!
//! `Rocm::capture` notes launches, fills and copies of the calling thread; memory is allocated and kernels are loaded as usual. Only then
//! does it give the noted work to a separate stream under HIP's thread-local capture. So no forbidden call happens during a capture,
//! other threads and streams are unaffected, and a failed capture only returns an error. A wait for the whole device would spoil a
//! capture and is kept out by a lock; if other code makes one, the capture is made again. Launches by libraries cannot be noted: a call
//! that rocBLAS, hipBLASLt or MIOpen would compute is refused by name. A graph shares the memory that it uses with the tensors, and
//! replays order and note its uses like a call, so other queues wait as usual.
//!
//! # Groups
//!
//! RCCL hangs, or uses memory outside of its buffers, if ranks disagree. So the ranks of a `RocmGroup` first agree on a call on the host; then
//! each enqueues it. RCCL has no time limit either. An event follows each collective, and a thread asks whether it is reached. If not in
//! time, the thread first makes every later wait of the queues return the error, and then aborts the communicators, so that no wait that
//! this ends takes what is in memory for a result.
//!
//! Small messages go through our own kernels (`kernels/hip/group.hip`), which write into areas on all devices and wait for each other. They
//! end by themselves after the limit, note why in pinned host memory, and the next wait of a queue asks for that (`Rocm::group_fault`). So
//! a replay of them needs neither the thread nor a meeting on the host. A graph keeps the areas alive, which all ranks share.
//!
//! # Index errors
//!
//! A kernel cannot return an error. Each stream has a record in pinned host memory, which holds its first index error; the next wait or
//! download of that queue returns it, without a copy. Kernels compete for the record by an atomic operation on device memory, because
//! not every PCI Express link carries atomics to host memory.

mod backend;
#[cfg(feature = "rocm-rs")]
pub mod bridge;
mod builder;
mod choice;
mod error;
mod fingerprint;
mod group;
pub mod hip;
mod index_names;
mod kernels;
mod matrix_check;
mod own_files;
mod own_program;
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
pub use choice::{Candidate, Decision, Library, Measurement, Policy, PolicyError, Target, Verdict, class_of};
pub use group::{PeerAccess, RocmGroup, Transport, known_peer_access, test_peer_access};
pub use hip_sys::loader::Version;
pub use kernels::{CacheFolder, CodeObjects, KernelCount, KernelOrigin, KernelSource, LoadedUnit};
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
