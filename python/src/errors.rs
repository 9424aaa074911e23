//! Errors as Python's exceptions.
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rocm_ops::{Error, gguf, models};
use rocm_ops_calls::Fault;

pyo3::create_exception!(
    rocm_ops,
    Unsupported,
    PyRuntimeError,
    "The backend has no kernel for this call. Nothing was written."
);

/// The exception for an error of an op or a backend.
pub(crate) fn op(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Unsupported { .. } => Unsupported::new_err(message),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(message),
        Error::Device { .. }
        | Error::NoDevice { .. }
        | Error::Mismatch { .. }
        | Error::OutOfBlocks { .. }
        | Error::OutOfMemories { .. } => PyRuntimeError::new_err(message),
        // What is left are shapes, types, options, indices: the caller's.
        _ => PyValueError::new_err(message),
    }
}

/// The exception for a call that cannot be made.
pub(crate) fn fault(fault: Fault) -> PyErr {
    match fault {
        Fault::Wrong(message) => PyValueError::new_err(message),
        Fault::Op(error) => op(error),
    }
}

/// The exception for an error of a model.
pub(crate) fn model(error: models::Error) -> PyErr {
    match error {
        models::Error::Op(error) => op(error),
        models::Error::File(error) => file(error),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// The exception for an error of a model file.
pub(crate) fn file(error: gguf::Error) -> PyErr {
    let message = error.to_string();
    match error {
        gguf::Error::Io { .. } => PyOSError::new_err(message),
        _ => PyValueError::new_err(message),
    }
}
