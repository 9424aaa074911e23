//! Comparisons and truth values.
use super::{Wants, exactly, logical};
use crate::{Array, CallError, Case};
use core::cmp::Ordering;
use ops_core::Wide;

/// The ops computed here.
pub(super) const OPS: &[&str] =
    &["eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not"];

pub(super) fn wants(case: &Case) -> Wants {
    if case.op == "logical_not" {
        let y: Vec<u8> = logical(case, "x")?.to_wide()?.iter().map(|x| u8::from(!is_true(*x))).collect();
        return Ok(vec![exactly("y", Array::from_slice(&y)?)]);
    }
    let (a, b) = (logical(case, "a")?.to_wide()?, logical(case, "b")?.to_wide()?);
    let y: Result<Vec<u8>, CallError> = a.iter().zip(b).map(|(a, b)| holds(&case.op, *a, b)).collect();
    Ok(vec![exactly("y", Array::from_slice(&y?)?)])
}

/// Whether a number is another one than 0.
fn is_true(v: Wide) -> bool {
    match v {
        Wide::Int(v) => v != 0,
        // NaN differs from 0.
        Wide::Float(v) => v != 0.0,
    }
}

fn holds(op: &str, a: Wide, b: Wide) -> Result<u8, CallError> {
    let (p, q) = (is_true(a), is_true(b));
    match op {
        "logical_and" => return Ok(u8::from(p) * u8::from(q)),
        "logical_or" => return Ok(u8::from(p).max(u8::from(q))),
        "logical_xor" => return Ok((u8::from(p) + u8::from(q)) % 2),
        _ => {}
    }
    let order = match (a, b) {
        (Wide::Int(a), Wide::Int(b)) => Some(a.cmp(&b)),
        (Wide::Float(a), Wide::Float(b)) => a.partial_cmp(&b),
        _ => return Err(CallError::Malformed(format!("{op} of an integer and a float"))),
    };
    let allowed: &[Option<Ordering>] = match op {
        "eq" => &[Some(Ordering::Equal)],
        "ne" => &[Some(Ordering::Less), Some(Ordering::Greater), None],
        "lt" => &[Some(Ordering::Less)],
        "le" => &[Some(Ordering::Less), Some(Ordering::Equal)],
        "gt" => &[Some(Ordering::Greater)],
        _ => &[Some(Ordering::Greater), Some(Ordering::Equal)],
    };
    Ok(allowed.contains(&order).into())
}
