//! Generated bindings of rocBLAS, opened at run time, on top of [`hip_sys`].
//!
//! Nothing is linked, so this crate builds and documents without ROCm. [`load`] opens the rocBLAS that belongs to the
//! HIP runtime's major version, from the runtime's folder or the places of [`hip_sys::Search::standard`].
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rocblas = rocblas_sys::load()?;
//! println!("rocBLAS {:?} from {}", rocblas.version(), rocblas.path().display());
//!
//! // Without kernels for the device, creating a handle ends the process.
//! rocblas_sys::tensile::kernels_for(&rocblas, "gfx1100")?;
//!
//! let mut handle = std::ptr::null_mut();
//! // SAFETY: rocblas_create_handle writes one handle through the pointer.
//! let status = unsafe { rocblas.rocblas_create_handle(&mut handle) }?;
//! assert_eq!(status, rocblas_sys::rocblas_status_success, "{:?}", rocblas_sys::status_name(status));
//! // SAFETY: the handle was created above and is not used again.
//! unsafe { rocblas.rocblas_destroy_handle(handle) }?;
//! # Ok(()) }
//! ```
//!
//! If the library is missing, the error names the places that were searched and the remedy:
//!
//! ```
//! match rocblas_sys::load() {
//!     Ok(rocblas) => println!("{} {:?}", rocblas.path().display(), rocblas.version()),
//!     Err(reason) => println!("{reason}"),
//! }
//! ```
//!
//! **rocBLAS ends the process** if it has no kernels for the device, so call [`tensile::kernels_for`] before you create a
//! handle. Matrices are column-major: for a row-major product, swap the operands.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use hip_sys::loader::{self, Description, Library, Version};
use hip_sys::{LoadError, Search, hip};

pub mod tensile;

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
#[rustfmt::skip]
mod generated;

pub use generated::*;

/// The open rocBLAS.
pub type Lib = Library<Functions>;

/// Opens the rocBLAS with the major version of the HIP runtime, which is opened first. After the first success, later calls
/// return the same library.
///
/// # Errors
///
/// [`LoadError`] if the runtime or rocBLAS cannot be opened.
pub fn load() -> Result<Lib, LoadError> {
    static LIB: OnceLock<Lib> = OnceLock::new();
    loader::once(&LIB, || load_from(&hip::load()?, &Search::standard()))
}

/// Opens the rocBLAS that belongs to a HIP runtime: from the runtime's folder, or else by the search.
///
/// # Errors
///
/// [`LoadError`] if none is found.
pub fn load_from(hip: &hip::Lib, search: &Search) -> Result<Lib, LoadError> {
    // rocBLAS has its own major versions: 4 with ROCm 6, 5 with ROCm 7.
    let (rocm, own) = (hip.rocm_major(), hip.rocm_major().saturating_sub(2));
    let sonames = vec![(format!("librocblas.so.{own}"), rocm)];
    let advice = format!(
        "install rocBLAS of ROCm {rocm} (AMD's package rocblas, Debian's librocblas{own}) beside {}",
        hip.path().display()
    );
    Description { name: "rocBLAS", sonames, newer: None, required: None, advice, version }
        .open(&search.after(hip.folders()))
}

fn version(rocblas: &Functions) -> Option<Version> {
    let mut text: [c_char; 256] = [0; 256];
    // SAFETY: rocblas_get_version_string writes at most the given number of characters, which is one less
    // than the array's length.
    let status = unsafe { rocblas.rocblas_get_version_string(text.as_mut_ptr(), text.len() - 1) };
    if status != Ok(rocblas_status_success) {
        return None;
    }
    // SAFETY: the array ends with a zero, because rocBLAS was given one character less than its length.
    Version::parse(unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().ok()?)
}
