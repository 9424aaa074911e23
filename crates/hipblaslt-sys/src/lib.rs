//! Generated bindings of hipBLASLt, opened at run time, on top of [`hip_sys`].
//!
//! Nothing is linked, so this crate builds and documents without ROCm. [`load`] opens the hipBLASLt that belongs to the
//! HIP runtime, from the runtime's folder or the places of [`hip_sys::Search::standard`].
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hipblaslt = hipblaslt_sys::load()?;
//! println!("hipBLASLt from {}", hipblaslt.path().display());
//!
//! // Without kernels for the device, choosing an algorithm may end the process.
//! hipblaslt_sys::tensile::kernels_for(&hipblaslt, "gfx1100")?;
//!
//! let mut handle = std::ptr::null_mut();
//! // SAFETY: hipblasLtCreate writes one handle through the pointer.
//! let status = unsafe { hipblaslt.hipblasLtCreate(&mut handle) }?;
//! assert_eq!(status, hipblaslt_sys::HIPBLAS_STATUS_SUCCESS, "{:?}", hipblaslt_sys::status_name(status));
//! assert!(!handle.is_null(), "there is no device");
//! // SAFETY: the handle was created above and is not used again.
//! unsafe { hipblaslt.hipblasLtDestroy(handle) }?;
//! # Ok(()) }
//! ```
//!
//! If the library is missing, the error names the places that were searched and the remedy:
//!
//! ```
//! match hipblaslt_sys::load() {
//!     Ok(hipblaslt) => println!("{} as {}", hipblaslt.path().display(), hipblaslt.soname()),
//!     Err(reason) => println!("{reason}"),
//! }
//! ```
//!
//! # What the header does not say
//!
//! - `libhipblaslt.so.0` belongs to ROCm 6, `libhipblaslt.so.1` to ROCm 7. Debian builds the latter for ROCm 6.4 too.
//! - [`hipblasLtCreate`](Functions::hipblasLtCreate) returns success without a device, and does not change
//!   the pointer.
//! - [`hipblasLtGetVersion`](Functions::hipblasLtGetVersion) needs a handle, so [`Library::version`] is that of the
//!   file's name, `libhipblaslt.so.1.2.70200`, or `None` if that has no number, as in ROCm's Python packages.
//! - Without kernels for the device, the library prints a message and follows a null pointer when it chooses an algorithm.
//!   Call [`tensile::kernels_for`] first.
//! - If there is no kernel for a problem, `hipblasLtMatmulAlgoGetHeuristic` returns success and no algorithm.
//! - A bias has one element per row of the column-major D.
//! - Matrices are column-major: for a row-major product, swap the operands.

use std::sync::OnceLock;

use hip_sys::loader::{self, Description, Library};
use hip_sys::{LoadError, Search, hip};

pub mod tensile;

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
#[rustfmt::skip]
mod generated;

pub use generated::*;

/// The open hipBLASLt.
pub type Lib = Library<Functions>;

/// Opens the hipBLASLt that belongs to the HIP runtime, which is opened first. After the first success, later calls return
/// the same library.
///
/// # Errors
///
/// [`LoadError`] if the runtime or hipBLASLt cannot be opened.
pub fn load() -> Result<Lib, LoadError> {
    static LIB: OnceLock<Lib> = OnceLock::new();
    loader::once(&LIB, || load_from(&hip::load()?, &Search::standard()))
}

/// Opens the hipBLASLt that belongs to a HIP runtime: from the runtime's folder, or else by the search.
///
/// # Errors
///
/// [`LoadError`] if none is found, or if it brings another HIP runtime.
pub fn load_from(hip: &hip::Lib, search: &Search) -> Result<Lib, LoadError> {
    let rocm = hip.rocm_major();
    // hipBLASLt has its own major versions: 0 with ROCm 6, 1 with ROCm 7. Debian has 1 for HIP 6.4 too.
    let majors = if rocm < 7 { vec![0, 1] } else { vec![rocm - 6] };
    let sonames: Vec<_> = majors.iter().map(|own| (format!("libhipblaslt.so.{own}"), rocm)).collect();
    let advice = format!(
        "install hipBLASLt of ROCm {rocm} (AMD's package hipblaslt, Debian's libhipblaslt1) beside {}",
        hip.path().display()
    );
    // The library reports its version only through a handle, which requires a device.
    Description { name: "hipBLASLt", sonames, newer: None, required: None, advice, version: |_| None }
        .open(&search.after(hip.folders()))
}
