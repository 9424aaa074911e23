//! Normalisation.
use super::{Reference, line, lines, mean};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{AddRmsNorm, GroupNorm, LayerNorm, RmsNorm};
use ops_core::{Call, Float, Layout, Result};

/// `x / sqrt(mean(x²) + eps) · weight`
pub(super) fn rms_norm_row(x: &[f64], weight: &[f64], eps: f64) -> Vec<f64> {
    let scale = 1.0 / (mean(x.iter().map(|v| v * v)) + eps).sqrt();
    x.iter().zip(weight).map(|(v, w)| v * scale * w).collect()
}

/// Mean and `1 / sqrt(var + eps)`.
fn moments(x: &[f64], eps: f64) -> (f64, f64) {
    let m = mean(x.iter().copied());
    (m, 1.0 / (mean(x.iter().map(|v| (v - m) * (v - m))) + eps).sqrt())
}

/// The values of an optional weight or bias, or `n` copies of `otherwise`.
fn values_or(x: Option<Raw<'_>>, n: usize, otherwise: f64) -> Vec<f64> {
    x.map_or_else(|| vec![otherwise; n], |x| x.values())
}

fn rms_norm(x: Raw<'_>, weight: Raw<'_>, mut y: RawMut<'_>, eps: f64) {
    let (lx, ly, weight) = (x.layout, y.layout, weight.values());
    let axis = lx.rank() - 1;
    for (px, py) in lines(&lx, axis).zip(lines(&ly, axis)) {
        let row = x.gather(line(&lx, axis, px));
        y.scatter(line(&ly, axis, py), rms_norm_row(&row, &weight, eps));
    }
}

fn layer_norm(x: Raw<'_>, weight: Option<Raw<'_>>, bias: Option<Raw<'_>>, mut y: RawMut<'_>, eps: f64) {
    let (lx, ly) = (x.layout, y.layout);
    let (axis, n) = (lx.rank() - 1, lx.last());
    let (weight, bias) = (values_or(weight, n, 1.0), values_or(bias, n, 0.0));
    for (px, py) in lines(&lx, axis).zip(lines(&ly, axis)) {
        let row = x.gather(line(&lx, axis, px));
        let (m, scale) = moments(&row, eps);
        let normed = row.iter().zip(&weight).zip(&bias).map(|((v, w), b)| (v - m) * scale * w + b);
        y.scatter(line(&ly, axis, py), normed);
    }
}

fn add_rms_norm(
    x: Raw<'_>,
    residual: Raw<'_>,
    weight: Raw<'_>,
    mut y: RawMut<'_>,
    mut sum: RawMut<'_>,
    eps: f64,
) {
    let (lx, lr, ly, ls) = (x.layout, residual.layout, y.layout, sum.layout);
    let (axis, weight) = (lx.rank() - 1, weight.values());
    let firsts = lines(&lx, axis).zip(lines(&lr, axis)).zip(lines(&ly, axis).zip(lines(&ls, axis)));
    for ((px, pr), (py, ps)) in firsts {
        let (a, b) = (x.gather(line(&lx, axis, px)), residual.gather(line(&lr, axis, pr)));
        // The sum is rounded to T, and the norm uses the rounded sum.
        let row: Vec<f64> = a.iter().zip(&b).map(|(a, b)| sum.rounded(a + b)).collect();
        y.scatter(line(&ly, axis, py), rms_norm_row(&row, &weight, eps));
        sum.scatter(line(&ls, axis, ps), row);
    }
}

fn group_norm(
    x: Raw<'_>,
    weight: Option<Raw<'_>>,
    bias: Option<Raw<'_>>,
    mut y: RawMut<'_>,
    num_groups: usize,
    eps: f64,
) -> Result<()> {
    let (lx, ly) = (x.layout, y.layout);
    let (batch, channels) = (lx.dims()[0], lx.dims()[1]);
    let (weight, bias) = (values_or(weight, channels, 1.0), values_or(bias, channels, 0.0));
    let per_group = channels / num_groups;
    for b in 0..batch {
        for first in (0..channels).step_by(per_group.max(1)) {
            // A view of one image and one group of channels.
            let group = |l: &Layout| l.narrow(0, b, 1)?.narrow(1, first, per_group);
            let (gx, gy) = (group(&lx)?, group(&ly)?);
            let values = x.gather(gx.positions());
            let (m, scale) = moments(&values, eps);
            let inner = values.len() / per_group.max(1);
            let channel = |i: usize| first + i / inner.max(1);
            let normed = values.iter().enumerate();
            let normed = normed.map(|(i, v)| (v - m) * scale * weight[channel(i)] + bias[channel(i)]);
            y.scatter(gy.positions(), normed);
        }
    }
    Ok(())
}

impl<T: Float> Kernel<RmsNorm<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, RmsNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        rms_norm(Raw::of(&a.x), Raw::any(&a.weight), RawMut::of(&mut a.y), op.eps);
        Ok(())
    }
}
impl<T: Float> Kernel<LayerNorm<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, LayerNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (weight, bias) = (Raw::any_if(&a.weight), Raw::any_if(&a.bias));
        layer_norm(Raw::of(&a.x), weight, bias, RawMut::of(&mut a.y), op.eps);
        Ok(())
    }
}
impl<T: Float> Kernel<AddRmsNorm<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, AddRmsNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, residual, weight) = (Raw::of(&a.x), Raw::of(&a.residual), Raw::any(&a.weight));
        add_rms_norm(x, residual, weight, RawMut::of(&mut a.y), RawMut::of(&mut a.sum), op.eps);
        Ok(())
    }
}
impl<T: Float> Kernel<GroupNorm<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, GroupNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (weight, bias) = (Raw::any_if(&a.weight), Raw::any_if(&a.bias));
        group_norm(Raw::of(&a.x), weight, bias, RawMut::of(&mut a.y), op.num_groups, op.eps)
    }
}
