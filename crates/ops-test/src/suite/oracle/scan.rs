//! Running sums.
use super::double::Double;
use super::integers::{self, integers, width, wrap};
use super::sort::lines;
use super::{Wants, exactly, logical, want};
use crate::{CallError, Case};
use ops_core::ops::CumSum;
use ops_core::ops::registry::Refused;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["cumsum"];

pub(super) fn wants(case: &Case) -> Wants {
    let dims = case.expect("x")?.layout.dims().to_vec();
    let axis = case.params.axis("axis")?.ok_or(Refused::Missing("axis"))?;
    let lines = lines(&dims, axis.rem_euclid(dims.len() as isize) as usize);
    if !case.dtype.is_float() {
        let range = width(case.dtype);
        let range = range.ok_or_else(|| CallError::Malformed(format!("no integers of {}", case.dtype)))?;
        let x = integers(case, "x")?;
        let mut y = vec![0; x.len()];
        for line in &lines {
            line.iter().fold(0, |sum, at| {
                y[*at] = wrap(sum + x[*at], range);
                sum + x[*at]
            });
        }
        return Ok(vec![exactly("y", integers::array(case.dtype, &y)?)]);
    }
    let x = logical(case, "x")?.to_f64()?;
    let mut y = vec![Double::ZERO; x.len()];
    for line in &lines {
        line.iter().fold(Double::ZERO, |sum, at| {
            y[*at] = sum + Double::of(x[*at]);
            y[*at]
        });
    }
    Ok(vec![want(case, &CumSum::<f64>::axis(0), "y", &y)?])
}
