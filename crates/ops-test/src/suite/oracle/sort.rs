//! Order along an axis.
use super::{Wants, exactly, integers, logical};
use crate::{Array, Case};
use ops_core::ops::registry::Refused;
use ops_core::{DType, Wide};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["sort", "argsort", "topk"];

pub(super) fn wants(case: &Case) -> Wants {
    let dims = case.expect("x")?.layout.dims().to_vec();
    let axis = case.params.axis("axis")?.unwrap_or(-1).rem_euclid(dims.len() as isize) as usize;
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
pub(super) fn lines(dims: &[usize], axis: usize) -> Vec<Vec<usize>> {
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
