//! Generated bindings of the HIP runtime and hipRTC, opened at run time.
//!
//! Nothing is linked and there is no build script, so this crate builds, documents and tests on a machine without
//! ROCm. [`hip::load`] opens `libamdhip64`, and [`hiprtc::load`] opens the matching run-time compiler. If that fails, a
//! [`LoadError`] names the library, every place that was searched, and the remedy. If the library lacks one function,
//! loading succeeds, and calling that function returns [`MissingSymbol`].
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
//! # Search order
//!
//! Libraries are searched in the folder in `OPS_ROCM_PATH`, the folder in `ROCM_PATH`, `/opt/rocm*` (newest version
//! first), and finally by the system's loader. A folder is either the root of an installation, with `lib` or `lib64` in
//! it, or the folder of the libraries itself. In each place ROCm 7 is preferred to ROCm 6. If a library in
//! `OPS_ROCM_PATH` exists but does not load, the search ends with an error, so that a broken choice is noticed.
//!
//! A library that the process has already loaded, as Python packages do, is used whatever the search would
//! find. Two major versions of `libamdhip64` in one process do not work, so a loaded HIP 6 is used even if
//! `OPS_ROCM_PATH` names ROCm 7; if both are loaded, that is an error. hipRTC, rocBLAS and hipBLASLt must
//! have the HIP runtime's major version. MIOpen has one soname for both majors, so it is taken only from the
//! HIP runtime's folder.
//!
//! # Safety of loading
//!
//! Opening a library runs its initialisers. `load` is safe in that it opens only files with ROCm's names in the places
//! above; whoever controls those places controls the process. Opened libraries stay open until the process ends, because
//! ROCm's libraries have threads and exit handlers.

pub mod hip;
pub mod hiprtc;
pub mod loader;
pub mod tensile;

mod error;
mod process_libraries;
mod search;
mod symbol;

pub use error::{Attempt, LoadError, LoadErrorKind, MissingSymbol, Outcome};
pub use loader::{Functions, Library, Version};
pub use search::Search;
