//! hipRTC, the run-time compiler for HIP sources, `libhiprtc`.
//!
//! The real library has two traps. Without `--offload-arch` it reports a compilation error with an empty log. An unknown
//! architecture ends the process, so check the name before compiling.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::loader::{self, Description, Library, Version};
use crate::{LoadError, Search, hip, process_libraries};

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
#[rustfmt::skip]
mod generated;

pub use generated::*;

/// The open hipRTC.
pub type Lib = Library<Functions>;

/// Opens the hipRTC with the major version of the HIP runtime, which is opened first. After the first success, later calls
/// return the same library.
///
/// # Errors
///
/// [`LoadError`] if the runtime or hipRTC cannot be opened.
pub fn load() -> Result<Lib, LoadError> {
    static LIB: OnceLock<Lib> = OnceLock::new();
    loader::once(&LIB, || load_from(&hip::load()?, &Search::standard()))
}

/// Opens the hipRTC that belongs to a HIP runtime: from the runtime's folder, or else by the search. ROCm 6 also exports
/// hipRTC from the runtime, which is used if there is no `libhiprtc`.
///
/// # Errors
///
/// [`LoadError`] if none is found.
pub fn load_from(hip: &hip::Lib, search: &Search) -> Result<Lib, LoadError> {
    let major = hip.rocm_major();
    let mut sonames = vec![(format!("libhiprtc.so.{major}"), major)];
    if major == 6 {
        sonames.push((hip.soname().to_string(), major));
    }
    let advice = format!(
        "install hipRTC of ROCm {major} (AMD's package hip-runtime-amd, Debian's libhiprtc{major}) beside {}",
        hip.path().display()
    );
    // A runtime of ROCm 6 built without hipRTC has the soname too.
    let required = Some("hiprtcVersion");
    Description { name: "hipRTC", sonames, newer: None, required, advice, version }
        .open(&search.after(hip.folders()))
}

/// The file of hipRTC's compiler, `libamd_comgr`. Distributions update it independently of hipRTC, and it
/// determines the generated code. hipRTC may open it only when it first compiles; until then, this is the
/// file next to hipRTC.
pub fn comgr(hiprtc: &Lib) -> Option<PathBuf> {
    let soname = comgr_soname(hiprtc.rocm_major());
    let loaded = process_libraries::loaded_file(&soname, "amd_comgr_get_version");
    loaded.or_else(|| {
        hiprtc.folders().into_iter().map(|folder| folder.join(&soname)).find(|file| file.is_file())
    })
}

/// comgr has its own major versions: 2 with ROCm 6, 3 with ROCm 7. hipRTC works only with its own major
/// version.
fn comgr_soname(rocm_major: u32) -> String {
    format!("libamd_comgr.so.{}", rocm_major.saturating_sub(4))
}

fn version(hiprtc: &Functions) -> Option<Version> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: hiprtcVersion writes one int through each pointer.
    let status = unsafe { hiprtc.hiprtcVersion(&mut major, &mut minor) };
    let numbers = (u32::try_from(major).ok()?, u32::try_from(minor).ok()?);
    (status == Ok(HIPRTC_SUCCESS)).then(|| Version::new(numbers.0, numbers.1, 0))
}
