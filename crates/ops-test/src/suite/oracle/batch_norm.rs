//! Batch normalisation.
use super::double::Double;
use super::{Wants, optional, values, want};
use crate::Case;
use ops_core::ops::BatchNorm;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["batch_norm"];

pub(super) fn wants(case: &Case) -> Wants {
    let x = values(case, "x")?;
    let eps = case.params.f64("eps")?;
    let (mean, var) = (values(case, "mean")?.of, values(case, "var")?.of);
    let (weight, bias) = (optional(case, "weight")?, optional(case, "bias")?);
    let inner: usize = x.dims[2..].iter().product();
    let of = |(at, v): (usize, &f64)| {
        let c = at / inner % x.dims[1];
        let centred = Double::of(*v) - Double::of(mean[c]);
        let root = (Double::of(var[c]) + Double::of(eps)).sqrt();
        let weight = weight.as_ref().map_or(1.0, |w| w.of[c]);
        let bias = bias.as_ref().map_or(0.0, |b| b.of[c]);
        centred / root * Double::of(weight) + Double::of(bias)
    };
    let y: Vec<Double> = x.of.iter().enumerate().map(of).collect();
    Ok(vec![want(case, &BatchNorm::<f64>::eps(eps), "y", &y)?])
}
