//! MIOpen: softmax, activations, norms, rope and pooling, each within its limits.
//!
//! Its kernels support only packed tensors, and fewer types than its interface accepts; arguments are checked
//! here.
mod batch_norm;
mod conv;
mod descriptor;
mod norm;
mod pool;
mod rope;
mod softmax;
mod unary;

use super::hip::bind::Bound;
use crate::choice::Target;
use crate::vendor::MiOpenLibrary;
use miopen_sys::{self as sys, miopenDataType_t};
use ops_core::{DType, Operands, Reason};
use ops_kernels::ElementType;
use std::ffi::c_void;

/// Computes an op with MIOpen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MiOpen;

const HALF_AND_SINGLE: &[DType] = &[DType::F16, DType::F32];
const ALL_SINGLE_AND_BELOW: &[DType] = &[DType::F16, DType::BF16, DType::F32];

/// Checks what all of MIOpen's ops require: a single element type, out of `types`, for all operands; packed
/// layouts; fewer than 2^31 elements; and a MIOpen version that computes this problem correctly.
fn suits(target: &Target, op: &str, on: &dyn Operands, types: &[DType]) -> Result<(), Reason> {
    let Some(first) = on.iter().next() else { return Ok(()) };
    if let Some(odd) = on.iter().find(|o| o.dtype != first.dtype || !types.contains(&o.dtype)) {
        return Err(Reason::DType { operand: odd.name, dtype: odd.dtype });
    }
    if let Some(strided) = on.iter().find(|o| !o.layout.is_contiguous()) {
        let name = strided.name;
        return Err(Reason::Because(format!("operand {name} must be packed")));
    }
    let (max, count) = (i32::MAX as usize, first.layout.len());
    if count > max {
        return Err(Reason::Limit { what: "elements", got: count, max });
    }
    target.require::<MiOpenLibrary>(op, on)
}

/// The type of an operand that was found suitable.
fn datatype(operand: &Bound) -> miopenDataType_t {
    match operand.dtype {
        ElementType::F16 => sys::miopenHalf,
        ElementType::Bf16 => sys::miopenBFloat16,
        _ => sys::miopenFloat,
    }
}

fn pointer(operand: &Bound) -> *mut c_void {
    operand.address as *mut c_void
}
