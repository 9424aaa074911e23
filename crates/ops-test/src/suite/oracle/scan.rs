//! Running sums and products.
use super::double::Double;
use super::integers::{self, integers, width, wrap};
use super::sort::lines;
use super::{Wants, exactly, logical, want};
use crate::{CallError, Case};
use ops_core::ops::registry::Refused;
use ops_core::ops::{Scan, ScanFn};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["cumsum", "cumprod"];

pub(super) fn wants(case: &Case) -> Wants {
    let dims = case.expect("x")?.layout.dims().to_vec();
    let axis = case.params.axis("axis")?.ok_or(Refused::Missing("axis"))?;
    let f = if case.op == "cumsum" { ScanFn::Sum } else { ScanFn::Prod };
    let lines = lines(&dims, axis.rem_euclid(dims.len() as isize) as usize);
    if !case.dtype.is_float() {
        let range = width(case.dtype);
        let range = range.ok_or_else(|| CallError::Malformed(format!("no integers of {}", case.dtype)))?;
        let x = integers(case, "x")?;
        let mut y = vec![0; x.len()];
        for line in &lines {
            // Wrapped at every step, so that products fit.
            line.iter().fold(i128::from(f == ScanFn::Prod), |joined, at| {
                y[*at] = wrap(if f == ScanFn::Sum { joined + x[*at] } else { joined * x[*at] }, range);
                y[*at].into()
            });
        }
        return Ok(vec![exactly("y", integers::array(case.dtype, &y)?)]);
    }
    let x = logical(case, "x")?.to_f64()?;
    let mut y = vec![Double::ZERO; x.len()];
    for line in &lines {
        let start = if f == ScanFn::Sum { Double::ZERO } else { Double::ONE };
        line.iter().fold(start, |joined, at| {
            let v = Double::of(x[*at]);
            y[*at] = if f == ScanFn::Sum { joined + v } else { joined * v };
            y[*at]
        });
    }
    Ok(vec![want(case, &Scan::<f64>::of(f, 0), "y", &y)?])
}
