//! Running sums, and order along an axis.
use super::double::Double;
use super::integers::{self, integers, width, wrap};
use super::{Wants, exactly, logical, want};
use crate::{Array, CallError, Case};
use ops_core::ops::CumSum;
use ops_core::ops::registry::Refused;
use ops_core::{DType, Wide};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["cumsum", "sort", "argsort", "topk"];

pub(super) fn wants(case: &Case) -> Wants {
    let dims = case.expect("x")?.layout.dims().to_vec();
    let axis = match case.op.as_str() {
        "cumsum" => case.params.axis("axis")?.ok_or(Refused::Missing("axis"))?,
        _ => case.params.axis("axis")?.unwrap_or(-1),
    };
    let axis = axis.rem_euclid(dims.len() as isize) as usize;
    if case.op == "cumsum" {
        return running(case, &lines(&dims, axis));
    }
    let descending = case.op == "topk" || case.params.flag("descending")?.unwrap_or(false);
    let x = logical(case, "x")?;
    let k =
        if case.op == "topk" { case.params.count("k")?.ok_or(Refused::Missing("k"))? } else { dims[axis] };
    let mut shape = dims.clone();
    shape[axis] = k;
    let mut values = Array::zeroed(x.dtype(), shape.iter().product())?;
    let mut indices = vec![0i64; values.len()];
    let wide = x.to_wide()?;
    for (from, to) in lines(&dims, axis).iter().zip(lines(&shape, axis)) {
        for (rank, index) in order(&wide, from, descending).into_iter().take(k).enumerate() {
            values.element_mut(to[rank]).copy_from_slice(x.element(from[index]));
            indices[to[rank]] = index as i64;
        }
    }
    let indices = integers::array(DType::U32, &indices)?;
    Ok(match case.op.as_str() {
        "sort" => vec![exactly("y", values)],
        "argsort" => vec![exactly("y", indices)],
        _ => vec![exactly("values", values), exactly("indices", indices)],
    })
}

/// The elements of each line along an axis, lines in row-major order.
fn lines(dims: &[usize], axis: usize) -> Vec<Vec<usize>> {
    let inner: usize = dims[axis + 1..].iter().product();
    let outer: usize = dims[..axis].iter().product();
    let n = dims[axis];
    let line = |o: usize, i: usize| (0..n).map(|at| (o * n + at) * inner + i).collect();
    (0..outer).flat_map(|o| (0..inner).map(move |i| line(o, i))).collect()
}

/// The positions of a line's elements in order: an element's index is the number of elements that come before
/// it.
fn order(x: &[Wide], line: &[usize], descending: bool) -> Vec<usize> {
    let nan = |v: Wide| matches!(v, Wide::Float(v) if v.is_nan());
    let below = |a: Wide, b: Wide| match (a, b) {
        (Wide::Int(a), Wide::Int(b)) => a < b,
        _ => a.to_f64() < b.to_f64() || !nan(a) && nan(b),
    };
    let mut order: Vec<usize> = (0..line.len()).collect();
    // Insertion by merging: halves keep their order, and equal elements of the first half come first.
    let mut width = 1;
    while width < order.len() {
        for pair in order.chunks_mut(2 * width) {
            let (first, second) = pair.split_at(width.min(pair.len()));
            let (mut a, mut b) = (first.iter().peekable(), second.iter().peekable());
            let mut merged: Vec<usize> = Vec::with_capacity(pair.len());
            while let (Some(i), Some(j)) = (a.peek(), b.peek()) {
                let (vi, vj) = (x[line[**i]], x[line[**j]]);
                let second_first = if descending { below(vi, vj) } else { below(vj, vi) };
                merged.extend(if second_first { b.next() } else { a.next() });
            }
            merged.extend(a);
            merged.extend(b);
            pair.copy_from_slice(&merged);
        }
        width *= 2;
    }
    order
}

fn running(case: &Case, lines: &[Vec<usize>]) -> Wants {
    if !case.dtype.is_float() {
        let range = width(case.dtype);
        let range = range.ok_or_else(|| CallError::Malformed(format!("no integers of {}", case.dtype)))?;
        let x = integers(case, "x")?;
        let mut y = vec![0; x.len()];
        for line in lines {
            line.iter().fold(0, |sum, at| {
                y[*at] = wrap(sum + x[*at], range);
                sum + x[*at]
            });
        }
        return Ok(vec![exactly("y", integers::array(case.dtype, &y)?)]);
    }
    let x = logical(case, "x")?.to_f64()?;
    let mut y = vec![Double::ZERO; x.len()];
    for line in lines {
        line.iter().fold(Double::ZERO, |sum, at| {
            y[*at] = sum + Double::of(x[*at]);
            y[*at]
        });
    }
    Ok(vec![want(case, &CumSum::<f64>::axis(0), "y", &y)?])
}
