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
//! 1. What the process has loaded, as Python packages do, is used whatever the search would find.
//! 2. `OPS_ROCM_PATH`, `ROCM_PATH`, `ROCM_HOME` and `HIP_PATH`, each a list of folders separated by colons. If a library in
//!    `OPS_ROCM_PATH` exists but does not load, the search ends with an error, so that a broken choice is noticed.
//! 3. ROCm's Python packages in the environments `VIRTUAL_ENV` and `CONDA_PREFIX`, and `$CONDA_PREFIX/lib`.
//! 4. `/opt/rocm/core-*`, `/opt/rocm-*` and `/opt/rocm`, newest version first.
//! 5. The system's loader, which knows `LD_LIBRARY_PATH` and the packages of distributions.
//!
//! A folder is an installation's root, `/opt/rocm` with installations in it, the folder of the libraries itself, a
//! `site-packages` folder, or an environment. In each place ROCm 7 is preferred to ROCm 6. HIP 8 is tried after all places, and
//! used only if it has all functions that this crate knows.
//!
//! Two copies of `libamdhip64` in one process do not work. So a loaded HIP 6 is used even if `OPS_ROCM_PATH` names ROCm 7, and
//! [`Library::note`] says so. hipRTC, rocBLAS and hipBLASLt must have the HIP runtime's major version. They, MIOpen and RCCL are
//! searched first beside the runtime, where Python's packages are several folders, and are refused if they would load another
//! copy of the runtime.
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
mod file_names;
mod process_libraries;
mod search;
mod symbol;
mod version;

pub use error::{Attempt, LoadError, LoadErrorKind, MissingSymbol, Outcome};
pub use loader::{Functions, Library};
pub use search::{Search, rocm_version};
pub use version::Version;
