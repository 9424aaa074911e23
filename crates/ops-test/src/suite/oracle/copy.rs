//! Copies, fills and numbers in steps.
use super::double::Double;
use super::{Wants, convert, exactly, integers, logical};
use crate::{Array, CallError, Case};
use ops_core::Wide;
use ops_core::ops::registry::Refused;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["copy", "fill", "arange"];

pub(super) fn wants(case: &Case) -> Wants {
    if case.op == "copy" {
        return Ok(vec![exactly("y", logical(case, "x")?)]);
    }
    if case.op == "arange" {
        return arange(case);
    }
    let to = case.dtype;
    let value = convert(case.params.wide("value")?.ok_or(Refused::Missing("value"))?, to);
    Ok(vec![exactly("y", from_wide(to, &vec![value; case.expect("y")?.layout.len()])?)])
}

fn arange(case: &Case) -> Wants {
    let option = |name, absent| Ok::<_, CallError>(case.params.wide(name)?.unwrap_or(Wide::Int(absent)));
    let (start, step, n) = (option("start", 0)?, option("step", 1)?, case.expect("y")?.layout.len());
    let at = |i: usize| match (start, step, integers::width(case.dtype)) {
        (Wide::Int(start), Wide::Int(step), Some(range)) => {
            Wide::Int(integers::wrap(i128::from(start) + i as i128 * i128::from(step), range))
        }
        // Rounded to f64 once: the product has no error in double-double arithmetic, and the sum one far below f64's.
        _ => {
            let sum = Double::of(i as f64) * Double::of(step.to_f64()) + Double::of(start.to_f64());
            Wide::Float(sum.nearest())
        }
    };
    let values: Vec<Wide> = (0..n).map(|i| convert(at(i), case.dtype)).collect();
    Ok(vec![exactly("y", from_wide(case.dtype, &values)?)])
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
