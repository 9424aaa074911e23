//! Rotary position embedding after a norm of the heads.
use super::rope::{Order, rotated};
use super::{Wants, norm, values, want};
use crate::Case;
use ops_core::ops::QkNormRope;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["qk_norm_rope"];

pub(super) fn wants(case: &Case) -> Wants {
    let (x, eps) = (values(case, "x")?, case.params.f64("eps")?);
    let normed = norm::rms_norm(&x.of, &values(case, "weight")?.of, eps);
    let order = case.params.word("order", |word| Some(word == "interleaved"))?;
    let y = rotated(case, normed, &x.dims, Order { adjacent: order == Some(true), thd: true, start: 0 })?;
    Ok(vec![want(case, &QkNormRope::<f64>::eps(eps), "y", &y)?])
}
