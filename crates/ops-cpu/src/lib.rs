//! The CPU backends.
//!
//! * [`Reference`] computes everything in f64 with plain loops. It is the oracle that other backends
//!   are checked against, so it stays simple.
//! * [`Cpu`] is the fast backend: threaded and vectorised.
//!
//! Both compute in [`Host`] memory, so they share tensors, and any slice can be viewed as a tensor:
//!
//! ```
//! use rocm_ops::ops::NormMethods;
//! use rocm_ops::{Cpu, Host};
//!
//! # fn main() -> rocm_ops::Result<()> {
//! let x = Host::view(&[3.0f32, 4.0], &[1, 2])?;
//! let weight = Host::view(&[1.0f32, 2.0], &[2])?;
//! let y = Cpu::new().rms_norm(x, weight, 0.0)?;
//! assert_eq!(y.buffer()[0], 3.0 / 12.5f32.sqrt());
//! # Ok(()) }
//! ```
//!
//! # How `Cpu` computes
//!
//! **Rows.** `cpu/rows.rs` finds the rows of any layout, hands them to threads, and gathers and scatters rows that are not contiguous,
//! so that kernels see slices. Elementwise ops first merge the axes of all operands (`Layout::merged`), so that a contiguous call of
//! any rank is one long run.
//!
//! **Types are values.** `Execute` is generic in the element types, but a suite that runs every op with every mixture of types would
//! then compile each kernel hundreds of times, and again in each program. `host/raw.rs` turns a checked call into operands whose type
//! is a value. Kernels take those, so they are compiled once, with this crate. [`EitherHost`] is one of the two backends, chosen at run
//! time, for the same reason.
//!
//! **Shared operands are used unconverted if they can be.** A norm's weight or rope's tables are used as they are if they are contiguous
//! and have the rows' dtype; otherwise they are widened to f32 once per call. For 16-bit rows, an f32 copy would evict the row from the
//! L1 cache.
//!
//! **Packed weights.** `LinearMethods::pack_weight` puts a weight in this processor's order: panels as wide as a kernel's columns for
//! floats, tiles of sixteen rows for q8_0 and q4_0. `linear` takes it like any other weight.
//!
//! **A convolution is a product** whose right factor is gathered while it is packed. The image is padded once, with columns ordered so
//! that a strided convolution reads neighbours too; `ops_simd::gemm::gemm_gathered` copies the shifted windows into the panels of the
//! product a block at a time, so they are never in memory as a whole. Groups of one channel are stencils. A transposed convolution is a
//! product whose columns are added up by gathering.
//!
//! **Threads** come from rayon's current pool; small calls stay on the caller's thread. [`CpuBuilder::threads`] gives a backend a pool of
//! its own. Backends of the same size share a pool, whose threads end with the last of these backends. If a call needs the determinism level
//! *batch*, a flag for its threads makes the choice among kernels independent of the number of rows.
//!
//! **Memory** of dropped buffers is kept for the next ones, because the first touch of fresh pages costs more than most ops.
//! [`Cpu::trim`] returns it to the system.
//!
//! **Groups.** [`HostGroup`] has ranks on any backend, as threads of this process. Each brings a copy of its elements, so no rank reads
//! memory that another may be writing, and adds in rank order.
//!
//! **Unsafe code** is in two files: `cpu/rows.rs`, where threads write disjoint rows of one output after checking that its layout repeats
//! no element, and `cpu/threads/crew.rs`, which lends a borrowed job to threads.

mod cpu;
mod either;
mod group;
mod host;
mod reference;

pub use cpu::{Activations, Cpu, CpuBuilder};
pub use either::EitherHost;
pub use group::HostGroup;
pub use host::{Host, HostBuffer, Kernel};
pub use reference::Reference;
