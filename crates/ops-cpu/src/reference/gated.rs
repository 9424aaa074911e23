//! Gated activations, gated norms and the L2 norm.
use super::norm::rms_norm_row;
use super::{Reference, line, lines};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{GatedRmsNorm, L2Norm, SwigluClamped, UnaryFn};
use ops_core::{Call, Float, Result};

/// `x / sqrt(Σx² + eps)`
fn l2_norm(x: Raw<'_>, mut y: RawMut<'_>, eps: f64) {
    let (lx, ly) = (x.layout, y.layout);
    let axis = lx.rank() - 1;
    for (px, py) in lines(&lx, axis).zip(lines(&ly, axis)) {
        let row = x.gather(line(&lx, axis, px));
        let root = (row.iter().map(|v| v * v).sum::<f64>() + eps).sqrt();
        y.scatter(line(&ly, axis, py), row.iter().map(|v| v / root));
    }
}

/// `rms_norm(x) · weight · silu(gate)`
fn gated_rms_norm(x: Raw<'_>, gate: Raw<'_>, weight: Raw<'_>, mut y: RawMut<'_>, eps: f64) {
    let (lx, lg, ly, weight) = (x.layout, gate.layout, y.layout, weight.values());
    let axis = lx.rank() - 1;
    for ((px, pg), py) in lines(&lx, axis).zip(lines(&lg, axis)).zip(lines(&ly, axis)) {
        let normed = rms_norm_row(&x.gather(line(&lx, axis, px)), &weight, eps);
        let gate = gate.gather(line(&lg, axis, pg));
        y.scatter(line(&ly, axis, py), normed.iter().zip(gate).map(|(v, g)| v * UnaryFn::Silu.at(g)));
    }
}

/// `min(max(v, low), high)`; NaN stays NaN.
fn clamp(v: f64, low: f64, high: f64) -> f64 {
    if v.is_nan() { v } else { v.max(low).min(high) }
}

fn swiglu_clamped(gate: Raw<'_>, up: Raw<'_>, mut y: RawMut<'_>, alpha: f64, limit: f64) {
    let pairs = gate.values().into_iter().zip(up.values());
    let values = pairs.map(|(gate, up)| {
        let (g, u) = (clamp(gate, f64::NEG_INFINITY, limit), clamp(up, -limit, limit));
        g * UnaryFn::Sigmoid.at(alpha * g) * (u + 1.0)
    });
    let values: Vec<f64> = values.collect();
    y.scatter(y.layout.positions(), values);
}

impl<T: Float> Kernel<L2Norm<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, L2Norm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        l2_norm(Raw::of(&a.x), RawMut::of(&mut a.y), op.eps);
        Ok(())
    }
}
impl<T: Float> Kernel<GatedRmsNorm<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, GatedRmsNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, gate, weight) = (Raw::of(&a.x), Raw::of(&a.gate), Raw::any(&a.weight));
        gated_rms_norm(x, gate, weight, RawMut::of(&mut a.y), op.eps);
        Ok(())
    }
}
impl<T: Float> Kernel<SwigluClamped<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, SwigluClamped<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        swiglu_clamped(Raw::of(&a.gate), Raw::of(&a.up), RawMut::of(&mut a.y), op.alpha, op.limit);
        Ok(())
    }
}
