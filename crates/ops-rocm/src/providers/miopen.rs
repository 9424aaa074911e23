//! MIOpen: softmax, activations, norms and rope, each within its limits.
use super::handle::{Failure, QueueHandle, Vendor};
use crate::choice::Target;
use crate::hip::Stream;
use hip_sys::MissingSymbol;
use miopen_sys::{self as sys, Lib, miopenHandle_t, miopenStatus_t};
use ops_core::Reason;
use std::ffi::CStr;
use std::ptr::null_mut;

/// MIOpen.
pub(crate) struct MiOpenLibrary;
/// A queue's handle.
pub(crate) type Handle = QueueHandle<MiOpenLibrary>;

impl Vendor for MiOpenLibrary {
    type Lib = Lib;
    type Raw = miopenHandle_t;

    fn lib(target: &Target) -> Result<&Lib, Reason> {
        target.miopen_lib()
    }

    fn create(lib: &Lib, stream: &Stream) -> Result<miopenHandle_t, Failure> {
        let mut handle = null_mut();
        // SAFETY: writes one handle; the stream is live and of the current device.
        let created = unsafe { lib.miopenCreateWithStream(&mut handle, stream.raw()) };
        check(lib, "miopenCreateWithStream", created).map(|()| handle)
    }

    unsafe fn destroy(lib: &Lib, raw: miopenHandle_t) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        check(lib, "miopenDestroy", unsafe { lib.miopenDestroy(raw) })
    }
}

fn check(
    lib: &Lib,
    call: &'static str,
    status: Result<miopenStatus_t, MissingSymbol>,
) -> Result<(), Failure> {
    let code = match status {
        Ok(sys::miopenStatusSuccess) => return Ok(()),
        Ok(code) => code,
        Err(missing) => return Err(Failure { call, status: missing.to_string() }),
    };
    // SAFETY: takes a number; the text is static.
    let name = match unsafe { lib.miopenGetErrorString(code) } {
        // SAFETY: a text that ends in a zero.
        Ok(text) if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        _ => "an unknown status".to_string(),
    };
    Err(Failure { call, status: format!("{name} ({code})") })
}
