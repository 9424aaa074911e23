//! Conversions between element types.
use super::copy::from_wide;
use super::{Wants, convert, exactly, logical};
use crate::Case;
use ops_core::Wide;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["cast"];

pub(super) fn wants(case: &Case) -> Wants {
    let to = case.dtype_of("y")?;
    let values: Vec<Wide> = logical(case, "x")?.to_wide()?.iter().map(|v| convert(*v, to)).collect();
    Ok(vec![exactly("y", from_wide(to, &values)?)])
}
