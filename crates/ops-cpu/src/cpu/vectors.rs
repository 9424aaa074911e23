//! The border to the vector kernels: their types, their errors, how outputs are stored.
use ops_core::{Error, Result};
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

/// Vector kernels check the lengths that this backend computed; a refusal is a fault here, told as such.
pub(super) fn told(op: &'static str, result: core::result::Result<(), ops_simd::Error>) -> Result<()> {
    result.map_err(|e| Error::Device { backend: "cpu", call: op, status: e.to_string() })
}

/// As [`told`], in loops on threads: the lengths are right by construction.
pub(super) fn sure(result: core::result::Result<(), ops_simd::Error>) {
    debug_assert!(result.is_ok(), "{result:?}");
}
