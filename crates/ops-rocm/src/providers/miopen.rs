//! MIOpen: softmax, activations, norms and rope, each within its limits.
//!
//! Its kernels take packed tensors only, and fewer types than its interface lets one pass: what is passed to it is
//! checked here.
mod activation;
mod descriptor;
mod norm;
mod rope;
mod softmax;

use super::handle::{Failure, QueueHandle, Vendor};
use super::hip::bind::Bound;
use crate::choice::{ProviderId, Target, denied};
use hip_sys::MissingSymbol;
use hip_sys::hip::hipStream_t;
use miopen_sys::{self as sys, Lib, miopenDataType_t, miopenHandle_t, miopenStatus_t};
use ops_core::{DType, Operands, Reason};
use ops_kernels::Dtype;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

/// Computes an op with MIOpen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MiOpen;

/// MIOpen, the library.
pub(crate) struct MiOpenLibrary;
/// A queue's handle.
pub(crate) type Handle = QueueHandle<MiOpenLibrary>;

impl Vendor for MiOpenLibrary {
    type Lib = Lib;
    type Raw = miopenHandle_t;

    fn lib(target: &Target) -> Result<&Lib, Reason> {
        target.miopen_lib()
    }

    unsafe fn create(lib: &Lib, stream: hipStream_t) -> Result<miopenHandle_t, Failure> {
        let mut handle = null_mut();
        // SAFETY: writes one handle; the stream is live and of the current device.
        let created = unsafe { lib.miopenCreateWithStream(&mut handle, stream) };
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

const HALF_AND_SINGLE: &[DType] = &[DType::F16, DType::F32];
const ALL_SINGLE_AND_BELOW: &[DType] = &[DType::F16, DType::BF16, DType::F32];

/// What all of MIOpen's ops want: one of some types for all operands, packed, extents of 31 bits; and that there is
/// MIOpen, not known to be wrong here.
fn suits(target: &Target, op: &str, on: &dyn Operands, types: &[DType]) -> Result<(), Reason> {
    let Some(first) = on.iter().next() else { return Ok(()) };
    if let Some(odd) = on.iter().find(|o| o.dtype != first.dtype || !types.contains(&o.dtype)) {
        return Err(Reason::DType { operand: odd.name, dtype: odd.dtype });
    }
    if let Some(strided) = on.iter().find(|o| !o.layout.is_contiguous()) {
        let name = strided.name;
        return Err(Reason::Because(format!("operand {name} must be packed")));
    }
    let (most, count) = (i32::MAX as usize, first.layout.len());
    if count > most {
        return Err(Reason::Limit { what: "elements", got: count, max: most });
    }
    target.require_miopen()?;
    denied(target, ProviderId::MIOPEN, op, on)
}

/// The type of an operand that was found suitable.
fn datatype(operand: &Bound) -> miopenDataType_t {
    match operand.dtype {
        Dtype::F16 => sys::miopenHalf,
        Dtype::Bf16 => sys::miopenBFloat16,
        _ => sys::miopenFloat,
    }
}

fn pointer(operand: &Bound) -> *mut c_void {
    operand.address as *mut c_void
}
