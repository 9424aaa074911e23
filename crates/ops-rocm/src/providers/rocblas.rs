//! rocBLAS: products of matrices.
mod plan;
mod product;

pub(crate) use product::RocBlas;

use super::handle::{Failure, QueueHandle, Vendor};
use crate::choice::Target;
use hip_sys::MissingSymbol;
use hip_sys::hip::hipStream_t;
use ops_core::Reason;
use rocblas_sys::{self as sys, Lib, rocblas_handle, rocblas_status};
use std::ffi::CStr;
use std::ptr::null_mut;

/// rocBLAS.
pub(crate) struct RocBlasLibrary;
/// A queue's handle.
pub(crate) type Handle = QueueHandle<RocBlasLibrary>;

impl Vendor for RocBlasLibrary {
    type Lib = Lib;
    type Raw = rocblas_handle;

    fn lib(target: &Target) -> Result<&Lib, Reason> {
        target.rocblas_lib()
    }

    unsafe fn create(lib: &Lib, stream: hipStream_t) -> Result<rocblas_handle, Failure> {
        let mut handle = null_mut();
        // SAFETY: writes one handle. There are kernels for the device, so that the process lives on.
        check(lib, "rocblas_create_handle", unsafe { lib.rocblas_create_handle(&mut handle) })?;
        // SAFETY: handle and stream are live and of one device.
        let set = check(lib, "rocblas_set_stream", unsafe { lib.rocblas_set_stream(handle, stream) })
            // Sums that several blocks add to in memory are rounded on the way, and differ from run to run.
            .and_then(|()| {
                // SAFETY: the handle is live.
                let set = unsafe { lib.rocblas_set_atomics_mode(handle, sys::rocblas_atomics_not_allowed) };
                check(lib, "rocblas_set_atomics_mode", set)
            });
        match set {
            Ok(()) => Ok(handle),
            Err(failure) => {
                // SAFETY: made above, and nobody has it. The first failure counts.
                let _ = unsafe { lib.rocblas_destroy_handle(handle) };
                Err(failure)
            }
        }
    }

    unsafe fn destroy(lib: &Lib, raw: rocblas_handle) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        check(lib, "rocblas_destroy_handle", unsafe { lib.rocblas_destroy_handle(raw) })
    }
}

fn check(
    lib: &Lib,
    call: &'static str,
    status: Result<rocblas_status, MissingSymbol>,
) -> Result<(), Failure> {
    let code = match status {
        Ok(sys::rocblas_status_success) => return Ok(()),
        Ok(code) => code,
        Err(missing) => return Err(Failure { call, status: missing.to_string() }),
    };
    // SAFETY: takes a number; the text is static.
    let name = match unsafe { lib.rocblas_status_to_string(code) } {
        // SAFETY: a text that ends in a zero.
        Ok(text) if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        _ => "an unknown status".to_string(),
    };
    Err(Failure { call, status: format!("{name} ({code})") })
}
