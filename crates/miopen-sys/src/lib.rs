//! Generated bindings of MIOpen, opened at run time, on top of [`hip_sys`].
//!
//! Nothing is linked, so this crate builds and documents without ROCm. MIOpen has one soname for ROCm 6 and 7, so
//! [`load`] refuses one that would bring a second HIP runtime into the process.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let miopen = miopen_sys::load()?;
//! println!("MIOpen {:?} from {}", miopen.version(), miopen.path().display());
//!
//! let mut handle = std::ptr::null_mut();
//! // SAFETY: miopenCreate writes one handle through the pointer.
//! let status = unsafe { miopen.miopenCreate(&mut handle) }?;
//! assert_eq!(status, miopen_sys::miopenStatusSuccess, "{:?}", miopen_sys::status_name(status));
//! // SAFETY: the handle was created above and is not used again.
//! unsafe { miopen.miopenDestroy(handle) }?;
//! # Ok(()) }
//! ```
//!
//! If the library is missing, the error names the places that were searched and the remedy:
//!
//! ```
//! match miopen_sys::load() {
//!     Ok(miopen) => println!("{} {:?}", miopen.path().display(), miopen.version()),
//!     Err(reason) => println!("{reason}"),
//! }
//! ```
//!
//! The bindings cover the functions for inference. They include those that the header declares only with `MIOPEN_BETA_API`
//! and that both majors export: layer norm, T5 layer norm (RMS norm), group norm, RoPE, GLU and concatenation.

use std::sync::OnceLock;

use hip_sys::loader::{self, Description, Library, Version};
use hip_sys::{LoadError, Search, hip};

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
#[rustfmt::skip]
mod generated;

pub use generated::*;

/// The open MIOpen.
pub type Lib = Library<Functions>;

/// Opens the MIOpen that belongs to the HIP runtime, which is opened first. After the first success, later calls return the
/// same library.
///
/// # Errors
///
/// [`LoadError`] if the runtime or MIOpen cannot be opened.
pub fn load() -> Result<Lib, LoadError> {
    static LIB: OnceLock<Lib> = OnceLock::new();
    loader::once(&LIB, || load_from(&hip::load()?, &Search::standard()))
}

/// Opens the MIOpen that belongs to a HIP runtime: from the runtime's folder, or else by the search.
///
/// # Errors
///
/// [`LoadError`] if none is found, or if it belongs to another HIP runtime.
pub fn load_from(hip: &hip::Lib, search: &Search) -> Result<Lib, LoadError> {
    let major = hip.rocm_major();
    let advice = format!(
        "install MIOpen of ROCm {major} (AMD's package miopen-hip, Debian's libmiopen1) beside {}",
        hip.path().display()
    );
    let sonames = vec![("libMIOpen.so.1".to_string(), major)];
    Description { name: "MIOpen", sonames, newer: None, required: None, advice, version }
        .open(&search.of_runtime(hip.folders()))
}

fn version(miopen: &Functions) -> Option<Version> {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: miopenGetVersion writes one size_t through each pointer.
    let status = unsafe { miopen.miopenGetVersion(&mut major, &mut minor, &mut patch) };
    let number = |n: usize| u32::try_from(n).ok();
    (status == Ok(miopenStatusSuccess))
        .then(|| Some(Version::new(number(major)?, number(minor)?, number(patch)?)))?
}
