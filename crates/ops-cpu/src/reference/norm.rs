//! Normalisation.
use super::{In, Reference, gather, line, lines, mean, scatter, vector};
use crate::{Host, Kernel};
use ops_core::ops::{
    AddRmsNorm, AddRmsNormArgs, GroupNorm, GroupNormArgs, LayerNorm, LayerNormArgs, RmsNorm, RmsNormArgs,
};
use ops_core::{Float, Result, Scalar, View};

/// `x / sqrt(mean(x²) + eps) · weight`
fn rms_norm_row(x: &[f64], weight: &[f64], eps: f64) -> Vec<f64> {
    let scale = 1.0 / (mean(x.iter().map(|v| v * v)) + eps).sqrt();
    x.iter().zip(weight).map(|(v, w)| v * scale * w).collect()
}

/// Mean and `1 / sqrt(var + eps)`.
fn moments(x: &[f64], eps: f64) -> (f64, f64) {
    let m = mean(x.iter().copied());
    (m, 1.0 / (mean(x.iter().map(|v| (v - m) * (v - m))) + eps).sqrt())
}

/// An optional weight or bias, or what stands for it.
fn vector_or<W: Scalar>(x: &Option<In<'_, W>>, n: usize, otherwise: f64) -> Vec<f64> {
    x.as_ref().map_or_else(|| vec![otherwise; n], vector)
}

impl<T: Float, W: Float> Kernel<RmsNorm<T, W>> for Reference {
    fn compute(&self, op: &RmsNorm<T, W>, a: &mut RmsNormArgs<'_, Host, T, W>) -> Result<()> {
        let (lx, ly, weight) = (*a.x.layout(), *a.y.layout(), vector(&a.weight));
        let axis = lx.rank() - 1;
        for (x, y) in lines(&lx, axis).zip(lines(&ly, axis)) {
            let row = gather(&a.x, line(&lx, axis, x));
            scatter(&mut a.y, line(&ly, axis, y), rms_norm_row(&row, &weight, op.eps));
        }
        Ok(())
    }
}

impl<T: Float, W: Float> Kernel<LayerNorm<T, W>> for Reference {
    fn compute(&self, op: &LayerNorm<T, W>, a: &mut LayerNormArgs<'_, Host, T, W>) -> Result<()> {
        let (lx, ly) = (*a.x.layout(), *a.y.layout());
        let (axis, n) = (lx.rank() - 1, lx.last());
        let (weight, bias) = (vector_or(&a.weight, n, 1.0), vector_or(&a.bias, n, 0.0));
        for (x, y) in lines(&lx, axis).zip(lines(&ly, axis)) {
            let row = gather(&a.x, line(&lx, axis, x));
            let (m, scale) = moments(&row, op.eps);
            let normed = row.iter().zip(&weight).zip(&bias).map(|((v, w), b)| (v - m) * scale * w + b);
            scatter(&mut a.y, line(&ly, axis, y), normed);
        }
        Ok(())
    }
}

impl<T: Float, W: Float> Kernel<AddRmsNorm<T, W>> for Reference {
    fn compute(&self, op: &AddRmsNorm<T, W>, a: &mut AddRmsNormArgs<'_, Host, T, W>) -> Result<()> {
        let (lx, lr, ly, ls) = (*a.x.layout(), *a.residual.layout(), *a.y.layout(), *a.sum.layout());
        let (axis, weight) = (lx.rank() - 1, vector(&a.weight));
        let firsts = lines(&lx, axis).zip(lines(&lr, axis)).zip(lines(&ly, axis).zip(lines(&ls, axis)));
        for ((x, r), (y, s)) in firsts {
            let (x, r) = (gather(&a.x, line(&lx, axis, x)), gather(&a.residual, line(&lr, axis, r)));
            // The sum is rounded to T, and the norm is that of the rounded sum.
            let sum: Vec<f64> = x.iter().zip(&r).map(|(x, r)| T::from_f64(x + r).to_f64()).collect();
            scatter(&mut a.y, line(&ly, axis, y), rms_norm_row(&sum, &weight, op.eps));
            scatter(&mut a.sum, line(&ls, axis, s), sum);
        }
        Ok(())
    }
}

impl<T: Float, W: Float> Kernel<GroupNorm<T, W>> for Reference {
    fn compute(&self, op: &GroupNorm<T, W>, a: &mut GroupNormArgs<'_, Host, T, W>) -> Result<()> {
        let (lx, ly) = (*a.x.layout(), *a.y.layout());
        let (batch, channels) = (lx.dims()[0], lx.dims()[1]);
        let (weight, bias) = (vector_or(&a.weight, channels, 1.0), vector_or(&a.bias, channels, 0.0));
        let per_group = channels / op.num_groups;
        for b in 0..batch {
            for first in (0..channels).step_by(per_group.max(1)) {
                // One image, one group of channels, as a view.
                let group = |l: &ops_core::Layout| l.narrow(0, b, 1)?.narrow(1, first, per_group);
                let (gx, gy) = (group(&lx)?, group(&ly)?);
                let x = gather(&a.x, gx.positions());
                let (m, scale) = moments(&x, op.eps);
                let inner = x.len() / per_group.max(1);
                let channel = |i: usize| first + i / inner.max(1);
                let normed = x
                    .iter()
                    .enumerate()
                    .map(|(i, v)| (v - m) * scale * weight[channel(i)] + bias[channel(i)]);
                scatter(&mut a.y, gy.positions(), normed);
            }
        }
        Ok(())
    }
}
