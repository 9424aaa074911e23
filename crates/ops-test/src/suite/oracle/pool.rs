//! Pooling.
use super::double::Double;
use super::{Wants, values, want};
use crate::{CallError, Case};
use ops_core::ops::registry::Refused;
use ops_core::ops::{Pool2d, PoolFn, Windows};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["max_pool2d", "avg_pool2d"];

/// An option with a value for each of two axes.
fn two(case: &Case, name: &'static str) -> Result<Option<[usize; 2]>, CallError> {
    let wrong = |_| CallError::Malformed(format!("`{name}` is not a pair"));
    case.params.counts(name)?.map(|list| list.try_into().map_err(wrong)).transpose()
}

/// Splits extents into the number of planes and the extents of a plane.
pub(super) fn planes(dims: &[usize], axes: usize) -> (usize, [usize; 2]) {
    let (lead, plane) = dims.split_at(dims.len() - axes);
    (lead.iter().product(), if axes == 2 { [plane[0], plane[1]] } else { [1, plane[0]] })
}

pub(super) fn wants(case: &Case) -> Wants {
    let x = values(case, "x")?;
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
