//! Batch normalisation, pooling and upsampling.
use super::double::Double;
use super::{Values, Wants, optional, values, want};
use crate::{CallError, Case};
use ops_core::ops::registry::Refused;
use ops_core::ops::{BatchNorm, Pool2d, PoolFn, Upsample, Windows};

/// The ops computed here.
pub(super) const OPS: &[&str] = &[
    "batch_norm",
    "max_pool2d",
    "avg_pool2d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_bilinear2d",
];

pub(super) fn wants(case: &Case) -> Wants {
    let x = values(case, "x")?;
    match case.op.as_str() {
        "batch_norm" => batch_norm(case, &x),
        "max_pool2d" | "avg_pool2d" => pool(case, &x),
        _ => upsample(case, &x),
    }
}

fn batch_norm(case: &Case, x: &Values) -> Wants {
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

/// An option with a value for each of two axes.
fn two(case: &Case, name: &'static str) -> Result<Option<[usize; 2]>, CallError> {
    let wrong = |_| CallError::Malformed(format!("`{name}` is not a pair"));
    case.params.counts(name)?.map(|list| list.try_into().map_err(wrong)).transpose()
}

/// Splits extents into the number of planes and the extents of a plane.
fn planes(dims: &[usize], axes: usize) -> (usize, [usize; 2]) {
    let (lead, plane) = dims.split_at(dims.len() - axes);
    (lead.iter().product(), if axes == 2 { [plane[0], plane[1]] } else { [1, plane[0]] })
}

fn pool(case: &Case, x: &Values) -> Wants {
    let kernel = two(case, "kernel")?.ok_or(Refused::Missing("kernel"))?;
    let (stride, padding) = (two(case, "stride")?.unwrap_or(kernel), two(case, "padding")?.unwrap_or([0, 0]));
    let (count, extents) = planes(&x.dims, 2);
    let windows = |axis: usize| (extents[axis] + 2 * padding[axis] - kernel[axis]) / stride[axis] + 1;
    // An element, or nothing in the padding.
    let element = |plane: usize, row: usize, column: usize| {
        let (row, column) = (row.checked_sub(padding[0])?, column.checked_sub(padding[1])?);
        let inside = row < extents[0] && column < extents[1];
        inside.then(|| x.of[(plane * extents[0] + row) * extents[1] + column])
    };
    let f = if case.op == "max_pool2d" { PoolFn::Max } else { PoolFn::Avg };
    let mut y = Vec::new();
    for plane in 0..count {
        for at in 0..windows(0) * windows(1) {
            let (top, left) = (at / windows(1) * stride[0], at % windows(1) * stride[1]);
            let window = (0..kernel[0] * kernel[1])
                .filter_map(|i| element(plane, top + i / kernel[1], left + i % kernel[1]));
            y.push(match f {
                PoolFn::Max => Double::of(largest(window)),
                _ => Double::total(window.map(Double::of)) / Double::of((kernel[0] * kernel[1]) as f64),
            });
        }
    }
    let windows = Windows::of(kernel).stride(stride).padding(padding);
    Ok(vec![want(case, &Pool2d::<f64>::of(f, windows), "y", &y)?])
}

fn largest(mut values: impl Iterator<Item = f64>) -> f64 {
    let largest =
        values.try_fold(f64::NEG_INFINITY, |best, v| if v.is_nan() { None } else { Some(best.max(v)) });
    largest.unwrap_or(f64::NAN)
}

/// The elements of an axis of `len` that contribute to element `i` of `size`, with their non-zero weights.
fn shares(op: &Upsample<f64>, corners: bool, i: usize, len: usize, size: usize) -> Vec<(usize, Double)> {
    if size == 0 {
        return Vec::new();
    }
    if !ops_core::Op::name(op).contains("bilinear") {
        return vec![(i * len / size, Double::ONE)];
    }
    // With a common denominator, so that positions that coincide with an element are exact.
    let (place, by) = match corners {
        true if size == 1 => (0, 1),
        true => (i * (len - 1), size - 1),
        false => (((2 * i + 1) * len).saturating_sub(size), 2 * size),
    };
    let (first, rest) = (place / by, place % by);
    if first + 1 >= len || rest == 0 {
        return vec![(first.min(len - 1), Double::ONE)];
    }
    let part = |n: usize| Double::of(n as f64) / Double::of(by as f64);
    vec![(first, part(by - rest)), (first + 1, part(rest))]
}

fn upsample(case: &Case, x: &Values) -> Wants {
    let axes = if case.op.ends_with("1d") { 1 } else { 2 };
    let size = case.params.counts("size")?.ok_or(Refused::Missing("size"))?;
    let corners = case.params.flag("align_corners")?.unwrap_or(false);
    let op = match (case.op.as_str(), &size[..]) {
        ("upsample_nearest1d", &[n]) => Upsample::nearest1d(n),
        ("upsample_nearest2d", &[h, w]) => Upsample::nearest2d([h, w]),
        (_, &[h, w]) => Upsample::bilinear2d([h, w], corners),
        _ => return Err(CallError::Malformed(format!("`size` is {size:?}"))),
    };
    let (count, [h, w]) = planes(&x.dims, axes);
    let [rows, columns] = if axes == 2 { [size[0], size[1]] } else { [1, size[0]] };
    let mut y = Vec::new();
    for plane in 0..count {
        for at in 0..rows * columns {
            let down = shares(&op, corners, at / columns, h, rows);
            let across = shares(&op, corners, at % columns, w, columns);
            let mut terms = Vec::new();
            for (row, by_row) in &down {
                for (column, by_column) in &across {
                    terms.push((*by_row * *by_column, x.of[(plane * h + row) * w + column]));
                }
            }
            y.push(mixture(&terms));
        }
    }
    Ok(vec![want(case, &op, "y", &y)?])
}

fn mixture(terms: &[(Double, f64)]) -> Double {
    // Elements with weight 1 are copied unchanged.
    if let [(_, v)] = terms {
        return Double::of(*v);
    }
    // In double-double arithmetic an infinite term has no low part, so special values are summed in f64.
    if terms.iter().any(|(_, v)| !v.is_finite()) {
        return Double::of(terms.iter().map(|(weight, v)| weight.nearest() * v).sum());
    }
    Double::weighted(terms.iter().copied())
}
