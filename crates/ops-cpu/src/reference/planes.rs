//! Batch normalisation, pooling and upsampling.
use super::{Reference, max};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{BatchNorm, Pool2d, PoolFn, Upsample, UpsampleFn, Windows};
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

/// The indices of a window that lie on an axis of `len` elements.
fn window(windows: &Windows, axis: usize, at: usize, len: usize) -> core::ops::Range<usize> {
    let (first, padding) = (at * windows.stride[axis], windows.padding[axis]);
    first.saturating_sub(padding)..(first + windows.kernel[axis]).saturating_sub(padding).min(len)
}

fn pool2d(f: PoolFn, windows: &Windows, x: Raw<'_>, mut y: RawMut<'_>) {
    let (lx, ly) = (x.layout, y.layout);
    let rows = ly.rank() - 2;
    let (h, w) = (lx.dims()[rows], lx.dims()[rows + 1]);
    let elements = windows.kernel[0] as f64 * windows.kernel[1] as f64;
    for (n, py) in ly.positions().enumerate() {
        let index = ly.index_of(n);
        let columns = window(windows, 1, index[rows + 1], w);
        let of_window = window(windows, 0, index[rows], h).flat_map(|r| columns.clone().map(move |c| [r, c]));
        let position = |at: [usize; 2]| lx.position(&[&index[..rows], &at].concat());
        let values = x.gather(of_window.map(position));
        let result = if f == PoolFn::Max { max(&values) } else { values.iter().sum::<f64>() / elements };
        y.set(py, result);
    }
}

/// The two elements of an axis of `len` between which element `i` of `size` lies, and the weight of the
/// second.
fn place(f: UpsampleFn, i: usize, len: usize, size: usize) -> (usize, usize, f64) {
    let (i, len, size) = (i as i128, len as i128, size as i128);
    // The position is this fraction.
    let (numerator, denominator) = match f {
        UpsampleFn::Bilinear2d { align_corners: true } => (i * (len - 1), (size - 1).max(1)),
        UpsampleFn::Bilinear2d { align_corners: false } => (((2 * i + 1) * len - size).max(0), 2 * size),
        _ => (i * len / size, 1),
    };
    let before = numerator / denominator;
    let after = (before + 1).min(len - 1);
    (before as usize, after as usize, (numerator % denominator) as f64 / denominator as f64)
}

/// `a · (1 − weight) + b · weight`, ignoring a summand with weight 0.
fn mixed(a: f64, b: f64, weight: f64) -> f64 {
    if weight == 0.0 { a } else { a * (1.0 - weight) + b * weight }
}

fn upsample(f: UpsampleFn, x: Raw<'_>, mut y: RawMut<'_>) {
    let (lx, ly) = (x.layout, y.layout);
    let last = ly.rank() - 1;
    for (n, py) in ly.positions().enumerate() {
        let index = ly.index_of(n);
        let place = |axis: usize| place(f, index[axis], lx.dims()[axis], ly.dims()[axis]);
        let mut at = index.clone();
        let mut on_row = |row: Option<usize>| {
            let (left, right, weight) = place(last);
            let mut value = |column| {
                if let Some(row) = row {
                    at[last - 1] = row;
                }
                at[last] = column;
                x.f64(lx.position(&at))
            };
            mixed(value(left), value(right), weight)
        };
        let result = match f {
            UpsampleFn::Nearest1d => on_row(None),
            _ => {
                let (above, below, weight) = place(last - 1);
                mixed(on_row(Some(above)), on_row(Some(below)), weight)
            }
        };
        y.set(py, result);
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
impl<T: Float> Kernel<Pool2d<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Pool2d<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        pool2d(op.f, &op.windows, Raw::of(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
impl<T: Float> Kernel<Upsample<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Upsample<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        upsample(op.function(), Raw::of(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
