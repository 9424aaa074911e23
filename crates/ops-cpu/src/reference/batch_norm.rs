//! Batch normalisation with given statistics.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::BatchNorm;
use ops_core::{Call, Float, Result};

/// `(x − mean) / sqrt(var + eps) · weight + bias`, each of element `c`.
fn batch_norm(
    x: Raw<'_>,
    [weight, bias]: [Option<Raw<'_>>; 2],
    [mean, var]: [Raw<'_>; 2],
    mut y: RawMut<'_>,
    eps: f64,
) {
    let (mean, var) = (mean.values(), var.values());
    let weight = weight.map_or_else(|| vec![1.0; mean.len()], |w| w.values());
    let bias = bias.map_or_else(|| vec![0.0; mean.len()], |b| b.values());
    let ly = y.layout;
    for (n, py) in ly.positions().enumerate() {
        let index = ly.index_of(n);
        let (v, c) = (x.f64(x.layout.position(&index)), index[1]);
        y.set(py, (v - mean[c]) / (var[c] + eps).sqrt() * weight[c] + bias[c]);
    }
}

impl<T: Float> Kernel<BatchNorm<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, BatchNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (affine, statistics) = ([&a.weight, &a.bias].map(Raw::any_if), [&a.mean, &a.var].map(Raw::any));
        batch_norm(Raw::of(&a.x), affine, statistics, RawMut::of(&mut a.y), op.eps);
        Ok(())
    }
}
