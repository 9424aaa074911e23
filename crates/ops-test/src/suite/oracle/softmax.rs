//! Softmax and log-softmax.
use super::double::Double;
use super::{Wants, exp, values, want};
use crate::Case;
use ops_core::ops::Softmax;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["softmax", "log_softmax"];

pub(super) fn wants(case: &Case) -> Wants {
    let x = values(case, "x")?;
    let (given, log) = (case.params.axis("axis")?.unwrap_or(-1), case.op == "log_softmax");
    let axis = usize::try_from(given).unwrap_or_else(|_| x.dims.len().saturating_add_signed(given));
    let (n, inner) = (x.dims[axis], x.dims[axis + 1..].iter().product::<usize>());
    let mut y = vec![Double::ZERO; x.of.len()];
    for block in (0..x.of.len()).step_by((n * inner).max(1)) {
        for first in block..block + inner {
            let line = || (0..n).map(|i| first + i * inner);
            let highest = line().map(|at| x.of[at]).fold(f64::NEG_INFINITY, f64::max);
            // A line of −∞ gives −∞ − −∞ = NaN; a line with a NaN gives NaN too.
            let shifted: Vec<Double> = line().map(|at| Double::of(x.of[at]) - Double::of(highest)).collect();
            let powers: Vec<Double> = shifted.iter().map(|v| exp(case.dtype, *v)).collect();
            let sum = Double::total(powers.iter().copied());
            let logarithm = sum.ln();
            for (i, at) in line().enumerate() {
                y[at] = if log { shifted[i] - logarithm } else { powers[i] / sum };
            }
        }
    }
    let op = Softmax::<f64>::axis(given);
    Ok(vec![want(case, &if log { op.log() } else { op }, "y", &y)?])
}
