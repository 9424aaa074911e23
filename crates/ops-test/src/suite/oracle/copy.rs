//! Copies and fills.
use super::{Wants, convert, exactly, integers, logical};
use crate::{Array, CallError, Case};
use ops_core::Wide;
use ops_core::ops::registry::Refused;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["copy", "fill"];

pub(super) fn wants(case: &Case) -> Wants {
    if case.op == "copy" {
        return Ok(vec![exactly("y", logical(case, "x")?)]);
    }
    let to = case.dtype;
    let value = convert(case.params.wide("value")?.ok_or(Refused::Missing("value"))?, to);
    Ok(vec![exactly("y", from_wide(to, &vec![value; case.expect("y")?.layout.len()])?)])
}

/// Values that the type represents exactly, as an array.
pub(super) fn from_wide(dtype: ops_core::DType, values: &[Wide]) -> Result<Array, CallError> {
    if integers::width(dtype).is_some() {
        let values: Vec<i64> = values.iter().map(|v| if let Wide::Int(v) = v { *v } else { 0 }).collect();
        return integers::array(dtype, &values);
    }
    // Through f64, which represents every value of a narrower float, so nothing is rounded again.
    Array::from_slice(
        &values.iter().map(|v| if let Wide::Float(v) = v { *v } else { f64::NAN }).collect::<Vec<_>>(),
    )
}
