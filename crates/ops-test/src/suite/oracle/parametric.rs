//! Powers, and functions of one number with parameters.
use super::double::Double;
use super::{Wants, exactly, integers, logical, values, want};
use crate::{Array, CallError, Case};
use ops_core::ops::Parametric;
use ops_core::ops::registry::Refused;
use ops_core::{DType, Wide};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["powf", "clamp", "elu"];

pub(super) fn wants(case: &Case) -> Wants {
    if case.op == "clamp" {
        return clamp(case);
    }
    let x = values(case, "x")?.of;
    let (op, y): (Parametric<f64>, Vec<Double>) = if case.op == "powf" {
        let exponent = case.params.f64("exponent")?;
        let powers = x.iter().map(|x| pow(Double::of(*x), Double::of(exponent)));
        (Parametric::powf(exponent), powers.collect())
    } else {
        let alpha = case.params.f64("alpha")?;
        (Parametric::elu(alpha), x.iter().map(|x| elu(*x, alpha)).collect())
    };
    Ok(vec![want(case, &op, "y", &y)?])
}

/// `a` to the power of `b`: `e^(b ln a)`, to about 30 digits minus the size of the exponent.
pub(super) fn pow(a: Double, b: Double) -> Double {
    let (x, exponent) = (a.nearest(), b.nearest());
    let ordinary = x != 0.0 && x.is_finite() && exponent != 0.0 && exponent.is_finite();
    if !ordinary {
        // The special values are those of C.
        return Double::of(x.powf(exponent));
    }
    let size = (b * a.abs().ln()).exp();
    match (x < 0.0, exponent.fract() == 0.0) {
        (false, _) => size,
        (true, false) => Double::of(f64::NAN),
        (true, true) => {
            if (exponent / 2.0).fract() == 0.0 {
                size
            } else {
                -size
            }
        }
    }
}

fn elu(x: f64, alpha: f64) -> Double {
    if x > 0.0 || x.is_nan() {
        return Double::of(x);
    }
    let x = Double::of(x);
    let below = if x.nearest() > -0.5 { x.exp_minus_one_near_zero() } else { x.exp() - Double::ONE };
    Double::of(alpha) * below
}

/// Computed in the values of the type, to which the bounds are cast.
fn clamp(case: &Case) -> Wants {
    let bound = |name| -> Result<Wide, CallError> {
        let bound = case.params.wide(name)?.ok_or(Refused::Missing(name))?;
        Ok(super::convert(bound, case.dtype))
    };
    let (min, max) = (bound("min")?, bound("max")?);
    let x = logical(case, "x")?.to_wide()?;
    let y: Vec<Wide> =
        x.into_iter().map(|x| either(either(x, min, |x, min| x < min), max, |x, max| x > max)).collect();
    let y = if integers::width(case.dtype).is_some() {
        let integer = |v: &Wide| if let Wide::Int(v) = v { *v } else { 0 };
        integers::array(case.dtype, &y.iter().map(integer).collect::<Vec<_>>())?
    } else {
        Array::from_f64(DType::F64, &y.iter().map(|v| v.to_f64()).collect::<Vec<_>>())?
    };
    Ok(vec![exactly("y", y)])
}

/// The bound where `beyond` holds or the bound is NaN; otherwise `x`, which may be NaN too.
fn either(x: Wide, bound: Wide, beyond: fn(f64, f64) -> bool) -> Wide {
    match (x, bound) {
        (Wide::Int(a), Wide::Int(b)) => {
            let order = a.cmp(&b) as i8;
            if beyond(f64::from(order), 0.0) { bound } else { x }
        }
        _ => {
            let (a, b) = (x.to_f64(), bound.to_f64());
            if !a.is_nan() && (b.is_nan() || beyond(a, b)) { bound } else { x }
        }
    }
}
