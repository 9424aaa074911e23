//! Elements by index.
use super::{Wants, exactly, integers, logical};
use crate::{Array, CallError, Case};
use ops_core::Wide;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["index_select"];

/// The elements of `x` along the case's axis that `ids` selects; zeros for "no element".
pub(super) fn wants(case: &Case) -> Wants {
    let (x, dims) = (logical(case, "x")?, case.expect("x")?.layout.dims());
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
    Ok(vec![exactly("y", y)])
}
