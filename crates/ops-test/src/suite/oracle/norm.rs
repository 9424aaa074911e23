//! Norms, computed row by row.
use super::double::Double;
use super::{Values, Wants, optional, values, want};
use crate::{Array, CallError, Case};
use ops_core::ops::{AddRmsNorm, GroupNorm, LayerNorm, RmsNorm};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["rms_norm", "layer_norm", "add_rms_norm", "group_norm"];

pub(super) fn wants(case: &Case) -> Wants {
    let (x, eps) = (values(case, "x")?, case.params.f64("eps")?);
    match case.op.as_str() {
        "rms_norm" => {
            let y = rms_norm(&x.of, &values(case, "weight")?.of, eps);
            Ok(vec![want(case, &RmsNorm::<f64>::eps(eps), "y", &y)?])
        }
        "layer_norm" => {
            // A row is a group in which each element is its own channel.
            let n = x.dims.last().copied().unwrap_or(0);
            let y = normed(case, &x, n, |at| at % n, eps)?;
            Ok(vec![want(case, &LayerNorm::<f64>::eps(eps), "y", &y)?])
        }
        "group_norm" => {
            let groups = case.params.count("num_groups")?.unwrap_or(1);
            let (channels, inner) = (x.dims[1], x.dims[2..].iter().product::<usize>());
            let y = normed(case, &x, channels / groups * inner, |at| at / inner % channels, eps)?;
            Ok(vec![want(case, &GroupNorm::<f64>::new(groups, eps), "y", &y)?])
        }
        _ => {
            let residual = values(case, "residual")?.of;
            let sum: Vec<Double> =
                x.of.iter().zip(residual).map(|(a, b)| Double::of(*a) + Double::of(b)).collect();
            // The sum is rounded before it is normalised.
            let nearest: Vec<f64> = sum.iter().map(|v| v.nearest()).collect();
            let stored = Array::from_f64(case.dtype, &nearest)?.to_f64()?;
            let y = rms_norm(&stored, &values(case, "weight")?.of, eps);
            let op = AddRmsNorm::<f64>::eps(eps);
            Ok(vec![want(case, &op, "y", &y)?, want(case, &op, "sum", &sum)?])
        }
    }
}

fn count(n: usize) -> Double {
    Double::of(n as f64)
}

pub(super) fn rms_norm(x: &[f64], weight: &[f64], eps: f64) -> Vec<Double> {
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks(weight.len().max(1)) {
        let square = Double::dot(row.iter().map(|v| (*v, *v))) / count(row.len());
        let root = (square + Double::of(eps)).sqrt();
        y.extend(row.iter().zip(weight).map(|(x, w)| Double::of(*x) * Double::of(*w) / root));
    }
    y
}

/// `(x − mean) / sqrt(variance + eps) · weight + bias` over groups of `n` consecutive elements, with the weight and bias of
/// each element's channel.
fn normed(
    case: &Case,
    x: &Values,
    n: usize,
    channel: impl Fn(usize) -> usize,
    eps: f64,
) -> Result<Vec<Double>, CallError> {
    let (weight, bias) = (optional(case, "weight")?, optional(case, "bias")?);
    let mut y = Vec::with_capacity(x.of.len());
    for group in x.of.chunks(n.max(1)) {
        let values = || group.iter().map(|v| Double::of(*v));
        let mean = Double::total(values()) / count(n);
        let variance = Double::total(values().map(|v| (v - mean).squared())) / count(n);
        let root = (variance + Double::of(eps)).sqrt();
        for v in values() {
            let channel = channel(y.len());
            let weight = weight.as_ref().map_or(1.0, |w| w.of[channel]);
            let bias = bias.as_ref().map_or(0.0, |b| b.of[channel]);
            y.push((v - mean) / root * Double::of(weight) + Double::of(bias));
        }
    }
    Ok(y)
}
