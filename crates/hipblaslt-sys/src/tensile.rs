//! Finds hipBLASLt's own kernels, which are in files next to the library.

use std::path::PathBuf;

use crate::Lib;
use hip_sys::tensile::Tensile;

pub use hip_sys::tensile::NoKernels;

const TENSILE: Tensile =
    Tensile { library: "hipBLASLt", folder: "hipblaslt", variable: "HIPBLASLT_TENSILE_LIBPATH" };

/// The folder with hipBLASLt's kernels for an architecture without features, such as `gfx90a`.
///
/// # Errors
///
/// [`NoKernels`] if there is none; do not ask for an algorithm then.
pub fn kernels_for(hipblaslt: &Lib, gfx: &str) -> Result<PathBuf, NoKernels> {
    TENSILE.kernels_for(&hipblaslt.folders(), gfx)
}
