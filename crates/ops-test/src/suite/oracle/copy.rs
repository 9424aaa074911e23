//! Ops that move or convert single elements.
use super::{Wants, convert, exactly, integers, logical};
use crate::{Array, CallError, Case};
use ops_core::Wide;
use ops_core::ops::registry::Refused;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["cast", "copy", "fill", "where", "index_select"];

pub(super) fn wants(case: &Case) -> Wants {
    let y = match case.op.as_str() {
        "cast" => {
            let to = case.dtype_of("y")?;
            let values: Vec<Wide> = logical(case, "x")?.to_wide()?.iter().map(|v| convert(*v, to)).collect();
            from_wide(to, &values)?
        }
        "copy" => logical(case, "x")?,
        "fill" => {
            let to = case.dtype;
            let value = convert(case.params.wide("value")?.ok_or(Refused::Missing("value"))?, to);
            from_wide(to, &vec![value; case.expect("y")?.layout.len()])?
        }
        "where" => choose(case)?,
        _ => select(&logical(case, "x")?, case.expect("x")?.layout.dims(), case)?,
    };
    Ok(vec![exactly("y", y)])
}

/// Values that the type represents exactly, as an array.
fn from_wide(dtype: ops_core::DType, values: &[Wide]) -> Result<Array, CallError> {
    if integers::width(dtype).is_some() {
        let values: Vec<i64> = values.iter().map(|v| if let Wide::Int(v) = v { *v } else { 0 }).collect();
        return integers::array(dtype, &values);
    }
    // Through f64, which represents every value of a narrower float, so nothing is rounded again.
    Array::from_slice(
        &values.iter().map(|v| if let Wide::Float(v) = v { *v } else { f64::NAN }).collect::<Vec<_>>(),
    )
}

fn choose(case: &Case) -> Result<Array, CallError> {
    let cond = logical(case, "cond")?.to_wide()?;
    let (on_true, mut y) = (logical(case, "on_true")?, logical(case, "on_false")?);
    for (i, c) in cond.iter().enumerate() {
        if *c != Wide::Int(0) {
            y.element_mut(i).copy_from_slice(on_true.element(i));
        }
    }
    Ok(y)
}

/// The elements of `x` along the case's axis that `ids` selects; zeros for "no element".
fn select(x: &Array, dims: &[usize], case: &Case) -> Result<Array, CallError> {
    let axis = case.params.axis("axis")?.unwrap_or(0);
    let axis = usize::try_from(if axis < 0 { axis + dims.len() as isize } else { axis }).unwrap_or(0);
    let ids = logical(case, "ids")?;
    let none = Wide::Int(match integers::width(ids.dtype()) {
        Some((bits, true)) => ((1i128 << (bits - 1)) - 1) as i64,
        Some((bits, false)) => ((1i128 << bits) - 1) as i64,
        None => return Err(CallError::Malformed("ids does not hold integers".into())),
    });
    let ids = ids.to_wide()?;
    let (outer, n) = (dims[..axis].iter().product::<usize>(), dims[axis]);
    let inner: usize = dims[axis + 1..].iter().product();
    let mut y = Array::zeroed(x.dtype(), outer * ids.len() * inner)?;
    for o in 0..outer {
        for (j, id) in ids.iter().enumerate().filter(|(_, id)| **id != none) {
            let Wide::Int(id) = *id else { continue };
            for i in 0..inner {
                let from = (o * n + id as usize) * inner + i;
                y.element_mut((o * ids.len() + j) * inner + i).copy_from_slice(x.element(from));
            }
        }
    }
    Ok(y)
}
