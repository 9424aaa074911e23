//! The interface to the vector kernels: their types, their errors, and how outputs are stored.
use ops_core::{DType, Error, Result};
use ops_simd::Store;

/// Evaluates `$body` with `$T` as the type that `$dtype` names, if the vector kernels support it; otherwise `$otherwise`.
macro_rules! on_vector {
    ($dtype:expr, $T:ident => $body:expr, else $otherwise:expr) => {
        match $dtype {
            ops_core::DType::F32 => {
                type $T = f32;
                $body
            }
            ops_core::DType::F16 => {
                type $T = ops_core::f16;
                $body
            }
            ops_core::DType::BF16 => {
                type $T = ops_core::bf16;
                $body
            }
            _ => $otherwise,
        }
    };
}
pub(super) use on_vector;

/// Outputs of at least this many bytes use non-temporal stores, because they exceed the caches.
const MIN_STREAMED_BYTES: usize = 32 << 20;

/// The store mode for an output of `bytes` bytes.
pub(super) fn store_mode(bytes: usize) -> Store {
    if bytes >= MIN_STREAMED_BYTES { Store::Stream } else { Store::Cached }
}

/// A bug in this backend that a kernel detected, such as mismatched lengths or a dtype that the op's rule forbids.
///
/// It is reported as [`Error::Device`], because an unwritten output must not look like a result.
#[derive(Debug)]
pub(super) struct Fault(String);

impl From<ops_simd::Error> for Fault {
    fn from(e: ops_simd::Error) -> Self {
        Fault(e.to_string())
    }
}
impl From<&'static str> for Fault {
    fn from(what: &'static str) -> Self {
        Fault(what.into())
    }
}

/// The result of a task on a thread.
pub(super) type TaskResult = core::result::Result<(), Fault>;

/// The fault of a kernel that does not support `dtype`.
pub(super) fn unsupported_dtype(dtype: DType) -> Fault {
    Fault(format!("this kernel does not support elements of {dtype}"))
}

/// Fails unless `dtype` is f64; guards code paths that handle only f64.
pub(super) fn only_f64(dtype: DType) -> TaskResult {
    if dtype == DType::F64 { Ok(()) } else { Err(unsupported_dtype(dtype)) }
}

/// Converts a fault to the error of the op's call.
pub(super) fn report<T>(op: &'static str, result: core::result::Result<T, impl Into<Fault>>) -> Result<T> {
    result.map_err(|e| Error::Device { backend: "cpu", call: op, status: e.into().0 })
}
