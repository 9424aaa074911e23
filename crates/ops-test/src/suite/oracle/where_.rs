//! Choices between two tensors.
use super::{Wants, exactly, logical};
use crate::Case;
use ops_core::Wide;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["where"];

pub(super) fn wants(case: &Case) -> Wants {
    let cond = logical(case, "cond")?.to_wide()?;
    let (on_true, mut y) = (logical(case, "on_true")?, logical(case, "on_false")?);
    for (i, c) in cond.iter().enumerate() {
        if *c != Wide::Int(0) {
            y.element_mut(i).copy_from_slice(on_true.element(i));
        }
    }
    Ok(vec![exactly("y", y)])
}
