//! Generated bindings of RCCL, AMD's library of collectives, opened at run time, on top of [`hip_sys`].
//!
//! Nothing is linked, so this crate builds and documents without ROCm. RCCL has NCCL's interface, and one soname for ROCm 6 and 7, so
//! [`load`] refuses one that would bring a second HIP runtime into the process.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rccl = rccl_sys::load()?;
//! println!("RCCL {:?} from {}", rccl.version(), rccl.path().display());
//!
//! // A communicator for each of the first two devices.
//! let mut comms = [std::ptr::null_mut(); 2];
//! // SAFETY: ncclCommInitAll writes two handles through the first pointer and reads two numbers through the last.
//! let status = unsafe { rccl.ncclCommInitAll(comms.as_mut_ptr(), 2, [0, 1].as_ptr()) }?;
//! assert_eq!(status, rccl_sys::ncclSuccess, "{:?}", rccl_sys::status_name(status));
//! for comm in comms {
//!     // SAFETY: the handle was created above and is not used again.
//!     unsafe { rccl.ncclCommDestroy(comm) }?;
//! }
//! # Ok(()) }
//! ```
//!
//! If the library is missing, the error names the places that were searched and the remedy:
//!
//! ```
//! match rccl_sys::load() {
//!     Ok(rccl) => println!("{} {:?}", rccl.path().display(), rccl.version()),
//!     Err(reason) => println!("{reason}"),
//! }
//! ```
//!
//! Only one thread at a time may use a communicator. Collectives return when they are enqueued; a rank that is missing, or that calls with
//! another size, makes the others wait for ever on the device, until [`Functions::ncclCommAbort`].

use std::sync::OnceLock;

use hip_sys::loader::{self, Description, Library, Version};
use hip_sys::{LoadError, Search, hip};

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
#[rustfmt::skip]
mod generated;

pub use generated::*;

/// The open RCCL.
pub type Lib = Library<Functions>;

/// Opens the RCCL that belongs to the HIP runtime, which is opened first. After the first success, later calls return the
/// same library.
///
/// # Errors
///
/// [`LoadError`] if the runtime or RCCL cannot be opened.
pub fn load() -> Result<Lib, LoadError> {
    static LIB: OnceLock<Lib> = OnceLock::new();
    loader::once(&LIB, || load_from(&hip::load()?, &Search::standard()))
}

/// Opens the RCCL that belongs to a HIP runtime: from the runtime's folder, or else by the search.
///
/// # Errors
///
/// [`LoadError`] if none is found, or if it belongs to another HIP runtime.
pub fn load_from(hip: &hip::Lib, search: &Search) -> Result<Lib, LoadError> {
    let major = hip.rocm_major();
    let advice = format!(
        "install RCCL of ROCm {major} (AMD's package rccl, Debian's librccl1) beside {}",
        hip.path().display()
    );
    let sonames = vec![("librccl.so.1".to_string(), major)];
    Description { name: "RCCL", sonames, newer: None, required: None, advice, version }
        .open(&search.of_runtime(hip.folders()))
}

fn version(rccl: &Functions) -> Option<Version> {
    let mut code = 0;
    // SAFETY: ncclGetVersion writes one int through the pointer.
    let status = unsafe { rccl.ncclGetVersion(&mut code) };
    (status == Ok(ncclSuccess)).then(|| version_of(code))?
}

/// The version in NCCL's code for it: since 2.9, 22703 is 2.27.3; before, 2804 was 2.8.4.
fn version_of(code: i32) -> Option<Version> {
    let code = u32::try_from(code).ok()?;
    let unit = if code < 10_000 { 1000 } else { 10_000 };
    Some(Version::new(code / unit, code % unit / 100, code % 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_old_and_new_versions() {
        assert_eq!(version_of(22_703), Some(Version::new(2, 27, 3)));
        assert_eq!(version_of(2_804), Some(Version::new(2, 8, 4)));
        assert_eq!(version_of(-1), None);
    }
}
