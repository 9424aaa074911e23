//! Matrix products.
use super::double::Double;
use super::{Wants, dot, optional, values, want};
use crate::Case;
use core::iter::zip;
use ops_core::ops::{Linear, MatMul};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["matmul", "linear"];

pub(super) fn wants(case: &Case) -> Wants {
    if case.op == "linear" {
        return linear(case);
    }
    let (a, b) = (values(case, "a")?, values(case, "b")?);
    let ([.., m, k], [.., n]) = (a.dims.as_slice(), b.dims.as_slice()) else {
        unreachable!("matrices have two axes")
    };
    let (m, k, n) = (*m, *k, *n);
    let mut c = Vec::new();
    for batch in 0..case.expect("c")?.layout.len() / (m * n).max(1) {
        let (a, b) = (&a.of[batch * m * k..][..m * k], &b.of[batch * k * n..][..k * n]);
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            c.push(dot(case.dtype, (0..k).map(|l| (a[i * k + l], b[l * n + j]))));
        }
    }
    Ok(vec![want(case, &MatMul::<f64>::OP, "c", &c)?])
}

fn linear(case: &Case) -> Wants {
    let (x, weight, bias) = (values(case, "x")?, values(case, "weight")?, optional(case, "bias")?);
    let &[n, k] = weight.dims.as_slice() else { unreachable!("a weight is a matrix") };
    let mut y = Vec::new();
    for row in 0..case.expect("y")?.layout.len() / n.max(1) {
        for j in 0..n {
            let product =
                dot(case.dtype, zip(&x.of[row * k..][..k], &weight.of[j * k..][..k]).map(|(x, w)| (*x, *w)));
            y.push(product + Double::of(bias.as_ref().map_or(0.0, |b| b.of[j])));
        }
    }
    Ok(vec![want(case, &Linear::<f64>::OP, "y", &y)?])
}
