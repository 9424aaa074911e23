//! Comparisons.
use super::{Wants, exactly, logical};
use crate::{Array, CallError, Case};
use core::cmp::Ordering;
use ops_core::Wide;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["eq", "ne", "lt", "le", "gt", "ge"];

pub(super) fn wants(case: &Case) -> Wants {
    let (a, b) = (logical(case, "a")?.to_wide()?, logical(case, "b")?.to_wide()?);
    let y: Result<Vec<u8>, CallError> = a.iter().zip(b).map(|(a, b)| holds(&case.op, *a, b)).collect();
    Ok(vec![exactly("y", Array::from_slice(&y?)?)])
}

fn holds(op: &str, a: Wide, b: Wide) -> Result<u8, CallError> {
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
