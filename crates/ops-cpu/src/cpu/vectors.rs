//! The border to the vector kernels: their types, their errors, how outputs are stored.
use ops_core::{DType, Error, Result};
use ops_simd::Store;

/// Calls `$body` with `$T` standing for the type that `$dtype` names, if vector kernels have it.
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

/// Bytes from which an output is stored past the caches: larger than what they hold.
const STREAMED: usize = 32 << 20;

/// How an output of so many bytes is stored.
pub(super) fn store(bytes: usize) -> Store {
    if bytes >= STREAMED { Store::Stream } else { Store::Cached }
}

/// A bug of this backend that a kernel noticed: lengths that do not fit, a type that the op's rule does not allow.
///
/// It reaches the caller as [`Error::Device`], since an output that was not written must not look like a result.
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

/// What a task on a thread returns.
pub(super) type Done = core::result::Result<(), Fault>;

/// The kernel has no code for elements of this type.
pub(super) fn no_code(dtype: DType) -> Fault {
    Fault(format!("no code for elements of {dtype}"))
}

/// For code that takes what it does not know for f64.
pub(super) fn only_f64(dtype: DType) -> Done {
    if dtype == DType::F64 { Ok(()) } else { Err(no_code(dtype)) }
}

/// A fault as the error of the op's call.
pub(super) fn report<T>(op: &'static str, result: core::result::Result<T, impl Into<Fault>>) -> Result<T> {
    result.map_err(|e| Error::Device { backend: "cpu", call: op, status: e.into().0 })
}
