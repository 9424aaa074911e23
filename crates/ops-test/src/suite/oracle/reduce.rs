//! Reductions over axes.
use super::double::Double;
use super::integers::{self, integers, width, wrap};
use super::{Wants, exactly, logical, want};
use crate::{CallError, Case};
use ops_core::ops::registry::Refused;
use ops_core::ops::{Axes, Reduce, ReduceFn};
use ops_core::{DType, Wide};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["sum", "mean", "max", "min", "prod", "argmax", "argmin"];

pub(super) fn wants(case: &Case) -> Wants {
    let given = match case.op.as_str() {
        "argmax" | "argmin" => vec![case.params.axis("axis")?.ok_or(Refused::Missing("axis"))?],
        _ => match case.params.axes("axes")? {
            Some(axes) => axes,
            None => (0..case.expect("x")?.layout.rank() as isize).collect(),
        },
    };
    let groups = groups(case.expect("x")?.layout.dims(), &given);
    if case.op.starts_with("arg") {
        let x = logical(case, "x")?.to_wide()?;
        let found: Vec<i64> =
            groups.iter().map(|group| first_of_largest(&case.op, &x, group) as i64).collect();
        return Ok(vec![exactly("y", integers::array(DType::U32, &found)?)]);
    }
    if case.dtype.is_float() { floats(case, &groups) } else { whole(case, &groups) }
}

/// For each output in row-major order, the elements that are reduced to it, also in row-major order.
fn groups(dims: &[usize], axes: &[isize]) -> Vec<Vec<usize>> {
    let rank = dims.len() as isize;
    let is_reduced = |axis: usize| axes.iter().any(|a| (a + rank) % rank.max(1) == axis as isize);
    let outputs = dims.iter().enumerate().filter(|(axis, _)| !is_reduced(*axis)).map(|(_, d)| d).product();
    let mut groups = vec![Vec::new(); outputs];
    for at in 0..dims.iter().product() {
        let (mut rest, mut output, mut step) = (at, 0, 1);
        for (axis, d) in dims.iter().enumerate().rev() {
            if !is_reduced(axis) {
                output += rest % d * step;
                step *= d;
            }
            rest /= d;
        }
        groups[output].push(at);
    }
    groups
}

fn floats(case: &Case, groups: &[Vec<usize>]) -> Wants {
    let x = logical(case, "x")?.to_f64()?;
    let f = ReduceFn::ALL.into_iter().find(|f| f.name() == case.op);
    let f = f.ok_or_else(|| CallError::Malformed(format!("no reduction {}", case.op)))?;
    // A NaN is larger than everything and smaller than everything.
    let extreme = |group: &[usize], wins: fn(f64, f64) -> bool| {
        let best = group.iter().map(|i| x[*i]).reduce(|a, b| if a.is_nan() || wins(a, b) { a } else { b });
        Double::of(best.unwrap_or(f64::NAN))
    };
    let sum = |group: &[usize]| Double::total(group.iter().map(|i| Double::of(x[*i])));
    let of = |group: &Vec<usize>| match f {
        ReduceFn::Sum => sum(group),
        ReduceFn::Mean => sum(group) / Double::of(group.len() as f64),
        ReduceFn::Max => extreme(group, |a, b| a >= b),
        ReduceFn::Min => extreme(group, |a, b| a <= b),
        _ => group.iter().fold(Double::ONE, |product, i| product * Double::of(x[*i])),
    };
    let y: Vec<Double> = groups.iter().map(of).collect();
    Ok(vec![want(case, &Reduce::<f64>::of(f, Axes::ALL), "y", &y)?])
}

fn whole(case: &Case, groups: &[Vec<usize>]) -> Wants {
    let range = width(case.dtype);
    let range = range.ok_or_else(|| CallError::Malformed(format!("no integers of {}", case.dtype)))?;
    let x = integers(case, "x")?;
    let of = |group: &Vec<usize>| {
        let mut x = group.iter().map(|i| x[*i]);
        match case.op.as_str() {
            "sum" => x.sum(),
            // Wrapped at every step, so that it fits.
            "prod" => x.fold(1, |product, v| i128::from(wrap(product * v, range))),
            "max" => x.max().unwrap_or(0),
            _ => x.by_ref().min().unwrap_or(0),
        }
    };
    let y: Vec<i64> = groups.iter().map(|group| wrap(of(group), range)).collect();
    Ok(vec![exactly("y", integers::array(case.dtype, &y)?)])
}

/// The position within `group` of the first NaN, otherwise of the first among the largest (or smallest) elements.
fn first_of_largest(op: &str, x: &[Wide], group: &[usize]) -> usize {
    let nan = |v: &Wide| matches!(v, Wide::Float(v) if v.is_nan());
    if let Some(at) = group.iter().position(|i| nan(&x[*i])) {
        return at;
    }
    let above = |a: &Wide, b: &Wide| match (a, b) {
        (Wide::Int(a), Wide::Int(b)) => a > b,
        _ => a.to_f64() > b.to_f64(),
    };
    let better = |a: &Wide, b: &Wide| if op == "argmax" { above(a, b) } else { above(b, a) };
    (1..group.len()).fold(0, |best, at| if better(&x[group[at]], &x[group[best]]) { at } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_in_order() {
        assert_eq!(groups(&[2, 3], &[-1]), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(groups(&[2, 3], &[0]), [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(groups(&[2, 1, 2], &[0, 2]), [[0, 1, 2, 3]]);
        assert_eq!(groups(&[0, 2], &[0]), [[0usize; 0], []]);
        assert_eq!(groups(&[], &[]), [[0]]);
    }
}
