//! Upsampling.
use super::double::Double;
use super::pool::planes;
use super::{Wants, values, want};
use crate::{CallError, Case};
use ops_core::ops::Upsample;
use ops_core::ops::registry::Refused;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d"];

/// The elements of an axis of `len` that element `i` of `size` is made of, with their weights, none of which is 0.
fn shares(op: &Upsample<f64>, corners: bool, i: usize, len: usize, size: usize) -> Vec<(usize, Double)> {
    if size == 0 {
        return Vec::new();
    }
    if !ops_core::Op::name(op).contains("bilinear") {
        return vec![(i * len / size, Double::ONE)];
    }
    // Over a common denominator, so that a place on an element is exactly there.
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

pub(super) fn wants(case: &Case) -> Wants {
    let x = values(case, "x")?;
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
    // Elements of weight 1 are taken as they are.
    if let [(_, v)] = terms {
        return Double::of(*v);
    }
    // In double-double arithmetic an infinite term has no low part, so special values are summed in f64.
    if terms.iter().any(|(_, v)| !v.is_finite()) {
        return Double::of(terms.iter().map(|(weight, v)| weight.nearest() * v).sum());
    }
    Double::weighted(terms.iter().copied())
}
