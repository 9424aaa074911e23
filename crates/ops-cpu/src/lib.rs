//! The CPU backends.
//!
//! * [`Reference`] computes everything in f64 with plain loops. It is the oracle that other backends
//!   are checked against, so it stays simple.
//! * [`Cpu`] is the fast backend: threaded and vectorised.
//!
//! Both compute in [`Host`] memory, so they share tensors, and any slice can be viewed as a tensor:
//!
//! ```
//! use ops_core::ops::{NormOps, RmsNorm};
//! use ops_cpu::{Cpu, Host};
//!
//! # fn main() -> ops_core::Result<()> {
//! let x = Host::view(&[3.0f32, 4.0], &[1, 2])?;
//! let weight = Host::view(&[1.0f32, 2.0], &[2])?;
//! let y = Cpu::new().rms_norm(x, weight, RmsNorm::eps(0.0))?;
//! assert_eq!(y.buffer()[0], 3.0 / 12.5f32.sqrt());
//! # Ok(()) }
//! ```

mod cpu;
mod either;
mod host;
mod reference;

pub use cpu::{Cpu, CpuBuilder};
pub use either::EitherHost;
pub use host::{Host, HostBuffer, Kernel};
pub use reference::Reference;
