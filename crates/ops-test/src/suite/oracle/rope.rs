//! Rotary position embedding.
use super::double::Double;
use super::{Values, Wants, values, want};
use crate::Case;
use ops_core::ops::{Rope, RopeForm};

/// The ops computed here, including their in-place forms.
pub(super) const OPS: &[&str] = &["rope", "rope_i", "rope_thd"];

pub(super) fn wants(case: &Case) -> Wants {
    let (x, cos, sin) = (values(case, "x")?, values(case, "cos")?, values(case, "sin")?);
    let start = case.params.count("start")?.unwrap_or(0);
    let name = case.op.trim_end_matches("_inplace");
    let form = match name {
        "rope_i" => RopeForm::Interleaved,
        "rope_thd" => RopeForm::HalfThd,
        _ => RopeForm::Half,
    };
    let &[_, second, third, d] = x.dims.as_slice() else { unreachable!("rope takes four axes") };
    let half = d / 2;
    let mut y = vec![Double::ZERO; x.of.len()];
    for row in 0..x.of.len() / d.max(1) {
        let token = start + if name == "rope_thd" { row / third % second } else { row % third };
        let batch = row / third / second;
        for j in 0..half {
            let (c, s) = (entry(&cos, batch, token, j), entry(&sin, batch, token, j));
            let (one, other) = if name == "rope_i" { (2 * j, 2 * j + 1) } else { (j, j + half) };
            let (one, other) = (row * d + one, row * d + other);
            let (a, b) = (x.of[one], x.of[other]);
            y[one] = Double::dot([(a, c), (-b, s)]);
            y[other] = Double::dot([(a, s), (b, c)]);
        }
    }
    let output = if case.op.ends_with("_inplace") { "x" } else { "y" };
    Ok(vec![want(case, &Rope::<f64>::new(form).start(start), output, &y)?])
}

/// An entry of a table `[rows, d / 2]`, or of one table per batch entry.
fn entry(table: &Values, batch: usize, token: usize, j: usize) -> f64 {
    match *table.dims {
        [_, half] => table.of[token * half + j],
        [_, rows, half] => table.of[(batch * rows + token) * half + j],
        _ => f64::NAN,
    }
}
