//! The L2 norm, the gated norm and the clamped gated activation.
use super::double::Double;
use super::norm::rms_norm;
use super::{Wants, functions, values, want};
use crate::{CallError, Case};
use ops_core::ops::{GatedRmsNorm, L2Norm, SwigluClamped};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["l2_norm", "gated_rms_norm", "swiglu_clamped"];

pub(super) fn wants(case: &Case) -> Wants {
    match case.op.as_str() {
        "l2_norm" => {
            let (x, eps) = (values(case, "x")?, case.params.f64("eps")?);
            let mut y = Vec::with_capacity(x.of.len());
            for row in x.of.chunks(x.dims.last().copied().unwrap_or(0).max(1)) {
                let root = (Double::dot(row.iter().map(|v| (*v, *v))) + Double::of(eps)).sqrt();
                y.extend(row.iter().map(|v| Double::of(*v) / root));
            }
            Ok(vec![want(case, &L2Norm::<f64>::eps(eps), "y", &y)?])
        }
        "gated_rms_norm" => {
            let (x, gate, weight) = (values(case, "x")?, values(case, "gate")?, values(case, "weight")?);
            let (eps, silu) = (case.params.f64("eps")?, function("silu")?);
            let normed = rms_norm(&x.of, &weight.of, eps).into_iter();
            let y: Vec<Double> = normed.zip(gate.of).map(|(v, g)| v * silu(Double::of(g))).collect();
            Ok(vec![want(case, &GatedRmsNorm::<f64>::eps(eps), "y", &y)?])
        }
        _ => {
            let (alpha, limit) = (case.params.f64("alpha")?, case.params.f64("limit")?);
            let (gate, up, sigmoid) =
                (values(case, "gate")?.of, values(case, "up")?.of, function("sigmoid")?);
            let y = gate.into_iter().zip(up).map(|(g, u)| {
                let g = if g > limit { limit } else { g };
                let u = if u < -limit { -limit } else { u };
                let u = if u > limit { limit } else { u };
                Double::of(g) * sigmoid(Double::of(alpha) * Double::of(g)) * (Double::of(u) + Double::ONE)
            });
            let y: Vec<Double> = y.collect();
            Ok(vec![want(case, &SwigluClamped::<f64>::new(alpha, limit), "y", &y)?])
        }
    }
}

fn function(name: &str) -> Result<fn(Double) -> Double, CallError> {
    functions::unary(name).ok_or_else(|| CallError::Malformed(format!("no oracle for {name}")))
}
