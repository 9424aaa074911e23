//! The HIP runtime and hipRTC, bound by generated code and opened at run time.
//!
//! Nothing is linked and there is no build script: this crate builds, documents and tests on a machine without
//! ROCm. [`hip::load`] opens `libamdhip64`, [`hiprtc::load`] the run-time compiler that belongs to it; each answers
//! with a [`LoadError`] that names what was looked for, where, and what to do. A function that the library at hand
//! lacks is an error of that one function ([`MissingSymbol`]), when it is called.
//!
//! ```
//! match hip_sys::hip::load() {
//!     Ok(hip) => {
//!         let mut count = 0;
//!         // SAFETY: hipGetDeviceCount writes one int through the pointer.
//!         let status = unsafe { hip.hipGetDeviceCount(&mut count) }?;
//!         match status {
//!             hip_sys::hip::hipSuccess => println!("{}: {count} devices", hip.path().display()),
//!             other => println!("{:?} ({other})", hip_sys::hip::status_name(other)),
//!         }
//!     }
//!     Err(reason) => println!("{reason}"),
//! }
//! # Ok::<(), hip_sys::MissingSymbol>(())
//! ```
//!
//! # Where libraries are looked for
//!
//! In this order: the folder in `OPS_ROCM_PATH`, the folder in `ROCM_PATH`, `/opt/rocm*` with the newest version
//! first, and then wherever the system's loader looks. A folder is either an installation's root, which holds `lib`
//! or `lib64`, or the folder of the libraries itself. In each place ROCm 7 is preferred to ROCm 6. A library in
//! `OPS_ROCM_PATH` that is there but does not load ends the search, so that a broken choice is not passed over.
//!
//! hipRTC and rocBLAS must be of the HIP runtime's major version. MIOpen has one soname for both majors, so it is
//! taken from the HIP runtime's own folder. Two majors of `libamdhip64` in one process are an error; a runtime that
//! the process already holds is used, not opened a second time from elsewhere.
//!
//! # Safety of loading
//!
//! Opening a library runs its initialisers. `load` is safe in the sense that it opens nothing but files of ROCm's
//! names in the places above; whoever controls those places controls the process. Opened libraries stay open until
//! the process ends: ROCm's have threads and exit handlers of their own.

pub mod hip;
pub mod hiprtc;
pub mod loader;

mod error;
mod resident;
mod search;

pub use error::{Attempt, LoadError, LoadErrorKind, MissingSymbol, Outcome};
pub use loader::{Functions, Library, Version};
pub use search::Search;
