//! The HIP runtime, `libamdhip64`.

use std::sync::OnceLock;

use crate::loader::{self, Description, Library, Version};
use crate::{LoadError, Search};

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
#[rustfmt::skip]
mod generated;

pub use generated::*;

/// The open HIP runtime.
pub type Lib = Library<Functions>;

/// Opens the HIP runtime of version 7 or 6, or else a newer one that has all functions that this crate knows. After the first success, later calls return the same library.
///
/// # Errors
///
/// [`LoadError`] if none is found in the places of [`Search::standard`]; this takes only milliseconds.
pub fn load() -> Result<Lib, LoadError> {
    static LIB: OnceLock<Lib> = OnceLock::new();
    loader::once(&LIB, || load_from(&Search::standard()))
}

/// Opens the HIP runtime that `search` finds, independently of [`load`].
///
/// # Errors
///
/// [`LoadError`] if the search finds none.
pub fn load_from(search: &Search) -> Result<Lib, LoadError> {
    description().open(search)
}

fn description() -> Description<Functions> {
    Description {
        name: "the HIP runtime",
        sonames: [7, 6].map(|major| (format!("libamdhip64.so.{major}"), major)).into(),
        newer: Some(("libamdhip64.so.8".to_string(), 8)),
        required: None,
        advice: "install ROCm (AMD's package hip-runtime-amd or amdrocm-runtime, Debian's libamdhip64-6 or -7, or \
                 `pip install rocm`), or set OPS_ROCM_PATH to the folder that holds its libraries"
            .to_string(),
        version,
    }
}

fn version(hip: &Functions) -> Option<Version> {
    let mut packed = 0;
    // SAFETY: hipRuntimeGetVersion writes one int through the pointer.
    let status = unsafe { hip.hipRuntimeGetVersion(&mut packed) };
    let packed = u32::try_from(packed).ok().filter(|_| status == Ok(hipSuccess))?;
    Some(Version::new(packed / 10_000_000, packed / 100_000 % 100, packed % 100_000))
}
