//! The extension module of the Python package `rocm_ops`.
//!
//! Unsafe code is in `dlpack`, `capsule`, `library`, `memory`, `device`, `tensor`, `packed`, `foreign` and `call`: what crosses to C.
use pyo3::prelude::*;

mod call;
mod capsule;
mod describe;
mod device;
mod dlpack;
mod errors;
mod foreign;
mod library;
mod memory;
mod models;
mod packed;
mod tensor;

/// Runs the command `rocm-ops`, which is `ops`, with these words; returns its exit status. `start` starts it
/// again, in a process of its own; `folder` has its models.
#[cfg(feature = "command")]
#[pyfunction]
fn command(
    py: Python<'_>,
    words: Vec<std::ffi::OsString>,
    start: Vec<std::ffi::OsString>,
    folder: std::path::PathBuf,
) -> u8 {
    py.detach(|| {
        let host = ops_cli::Host { start, folder };
        ops_cli::run(words, Some(host))
    })
}

/// The kernels of rocm_ops. Import `rocm_ops`, not this.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::call::{call, infer};
    #[cfg(feature = "command")]
    #[pymodule_export]
    use super::command;
    #[pymodule_export]
    use super::describe::ops;
    #[pymodule_export]
    use super::device::synchronize_all;
    #[pymodule_export]
    use super::errors::Unsupported;
    #[pymodule_export]
    use super::foreign::{blocks, copy_bytes, from_dlpack};
    #[pymodule_export]
    use super::models::{Model, Stream, load_gguf};
    #[pymodule_export]
    use super::packed::{pack_weight, packed};
    #[pymodule_export]
    use super::tensor::{Tensor, block, empty};
}
