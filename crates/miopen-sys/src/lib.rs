//! MIOpen, bound by generated code and opened at run time, on top of [`hip_sys`].
//!
//! Nothing is linked: this crate builds and documents without ROCm. MIOpen has one soname for ROCm 6 and 7, so
//! [`load`] takes it from the HIP runtime's folder and from nowhere else.
//!
//! ```
//! match miopen_sys::load() {
//!     Ok(miopen) => println!("{} {:?}", miopen.path().display(), miopen.version()),
//!     Err(reason) => println!("{reason}"),
//! }
//! ```
//!
//! Bound are the functions of inference, among them those that the header declares only under `MIOPEN_BETA_API` and
//! that both majors export: layer norm, T5 layer norm (RMS norm), group norm, RoPE, GLU, concatenation.

use std::sync::OnceLock;

use hip_sys::loader::{self, Description, Library, Version};
use hip_sys::{LoadError, Search, hip};

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
#[rustfmt::skip]
mod generated;

pub use generated::*;

/// The open MIOpen.
pub type Lib = Library<Functions>;

/// Opens MIOpen from the folder of the HIP runtime, which is opened first. Once that has succeeded, later calls give the
/// same library.
///
/// # Errors
///
/// [`LoadError`] when the runtime or MIOpen cannot be opened.
pub fn load() -> Result<Lib, LoadError> {
    static LIB: OnceLock<Lib> = OnceLock::new();
    loader::once(&LIB, || load_from(&hip::load()?))
}

/// Opens MIOpen from the folder of a HIP runtime.
///
/// # Errors
///
/// [`LoadError`] when it is not there.
pub fn load_from(hip: &hip::Lib) -> Result<Lib, LoadError> {
    let major = hip.rocm_major();
    let advice = format!(
        "install MIOpen of ROCm {major} (AMD's package miopen-hip, Debian's libmiopen1) beside {}",
        hip.path().display()
    );
    let sonames = vec![("libMIOpen.so.1".to_string(), major)];
    Description { name: "MIOpen", sonames, advice, version }.open(&Search::new().after(hip.folders()))
}

fn version(miopen: &Functions) -> Option<Version> {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: miopenGetVersion writes one size_t through each pointer.
    let status = unsafe { miopen.miopenGetVersion(&mut major, &mut minor, &mut patch) };
    let number = |n: usize| u32::try_from(n).ok();
    (status == Ok(miopenStatusSuccess))
        .then(|| Some(Version::new(number(major)?, number(minor)?, number(patch)?)))?
}
