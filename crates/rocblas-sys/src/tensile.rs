//! Finds rocBLAS's own kernels, which are in files next to the library.
//!
//! If rocBLAS has none for the device, it ends the process when the first handle is created. So check first.

use std::path::PathBuf;

use crate::Lib;
use hip_sys::tensile::Tensile;

pub use hip_sys::tensile::NoKernels;

const TENSILE: Tensile =
    Tensile { library: "rocBLAS", folder: "rocblas", variable: "ROCBLAS_TENSILE_LIBPATH" };

/// The folder with rocBLAS's kernels for an architecture without features, such as `gfx90a`.
///
/// # Errors
///
/// [`NoKernels`] if there is none; do not create a handle then.
pub fn kernels_for(rocblas: &Lib, gfx: &str) -> Result<PathBuf, NoKernels> {
    TENSILE.kernels_for(&rocblas.folders(), gfx)
}
