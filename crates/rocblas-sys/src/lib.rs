//! rocBLAS, bound by generated code and opened at run time, on top of [`hip_sys`].
//!
//! Nothing is linked: this crate builds and documents without ROCm. [`load`] opens the rocBLAS that belongs to the
//! HIP runtime's major version, from the runtime's folder or the places of [`hip_sys::Search::standard`].
//!
//! ```
//! match rocblas_sys::load() {
//!     Ok(rocblas) => println!("{} {:?}", rocblas.path().display(), rocblas.version()),
//!     Err(reason) => println!("{reason}"),
//! }
//! ```
//!
//! **rocBLAS ends the process** when it has no kernels of its own for the device: ask [`tensile::kernels_for`] before a
//! handle is made. Matrices are column-major: a row-major product swaps its operands.

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

/// Opens rocBLAS of the major version of the HIP runtime, which is opened first. Once that has succeeded, later calls
/// give the same library.
///
/// # Errors
///
/// [`LoadError`] when the runtime or rocBLAS cannot be opened.
pub fn load() -> Result<Lib, LoadError> {
    static LIB: OnceLock<Lib> = OnceLock::new();
    loader::once(&LIB, || load_from(&hip::load()?, &Search::standard()))
}

/// Opens rocBLAS that belongs to a HIP runtime: from the runtime's folder, else by the search.
///
/// # Errors
///
/// [`LoadError`] when there is none.
pub fn load_from(hip: &hip::Lib, search: &Search) -> Result<Lib, LoadError> {
    // rocBLAS counts its own majors: 4 with ROCm 6, 5 with ROCm 7.
    let (rocm, own) = (hip.rocm_major(), hip.rocm_major().saturating_sub(2));
    let sonames = vec![(format!("librocblas.so.{own}"), rocm)];
    let advice = format!(
        "install rocBLAS of ROCm {rocm} (AMD's package rocblas, Debian's librocblas{own}) beside {}",
        hip.path().display()
    );
    Description { name: "rocBLAS", sonames, advice, version }.open(&search.after(hip.folders()))
}

fn version(rocblas: &Functions) -> Option<Version> {
    let mut text: [c_char; 256] = [0; 256];
    // SAFETY: rocblas_get_version_string writes at most the given number of characters, which is less than there are.
    let status = unsafe { rocblas.rocblas_get_version_string(text.as_mut_ptr(), text.len() - 1) };
    if status != Ok(rocblas_status_success) {
        return None;
    }
    // SAFETY: the array ends in a zero that rocBLAS had no leave to overwrite.
    Version::parse(unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().ok()?)
}
