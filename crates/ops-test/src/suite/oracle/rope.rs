//! Rotary position embedding.
use super::double::Double;
use super::{Values, Wants, optional, values, want};
use crate::{CallError, Case};
use ops_core::ops::{Rope, RopeForm};

/// The ops computed here, including their in-place forms.
pub(super) const OPS: &[&str] = &["rope", "rope_i", "rope_thd"];

pub(super) fn wants(case: &Case) -> Wants {
    let x = values(case, "x")?;
    let start = case.params.count("start")?.unwrap_or(0);
    let name = case.op.trim_end_matches("_inplace");
    let form = match name {
        "rope_i" => RopeForm::Interleaved,
        "rope_thd" => RopeForm::HalfThd,
        _ => RopeForm::Half,
    };
    let order = Order { adjacent: name == "rope_i", thd: name == "rope_thd", start };
    let y = rotated(case, x.of.iter().map(|x| Double::of(*x)).collect(), &x.dims, order)?;
    let output = if case.op.ends_with("_inplace") { "x" } else { "y" };
    Ok(vec![want(case, &Rope::<f64>::new(form).start(start), output, &y)?])
}

/// Which features form pairs, and where tokens and angles are.
pub(super) struct Order {
    pub(super) adjacent: bool,
    pub(super) thd: bool,
    pub(super) start: usize,
}

/// Rotates as many leading features of each head as the tables have angles for.
pub(super) fn rotated(
    case: &Case,
    mut y: Vec<Double>,
    dims: &[usize],
    order: Order,
) -> Result<Vec<Double>, CallError> {
    let (cos, sin, positions) = (values(case, "cos")?, values(case, "sin")?, optional(case, "positions")?);
    let &[_, second, third, d] = dims else { unreachable!("rope takes four axes") };
    let half = cos.dims[cos.dims.len() - 1];
    for row in 0..y.len() / d.max(1) {
        let token = if order.thd { row / third % second } else { row % third };
        let batch = row / third / second;
        let angle = match &positions {
            // The whole batch may share one row of positions.
            Some(at) => at.of[if at.dims[0] == 1 { token } else { batch * at.dims[1] + token }] as usize,
            None => order.start + token,
        };
        for j in 0..half {
            let (c, s) = (entry(&cos, batch, angle, j), entry(&sin, batch, angle, j));
            let (one, other) = if order.adjacent { (2 * j, 2 * j + 1) } else { (j, j + half) };
            let (one, other) = (row * d + one, row * d + other);
            let (a, b) = (y[one], y[other]);
            y[one] = a * c - b * s;
            y[other] = a * s + b * c;
        }
    }
    Ok(y)
}

/// An entry of a table `[rows, half]`, or of one table per batch entry.
fn entry(table: &Values, batch: usize, row: usize, j: usize) -> Double {
    Double::of(match *table.dims {
        [_, half] => table.of[row * half + j],
        [_, rows, half] => table.of[(batch * rows + row) * half + j],
        _ => f64::NAN,
    })
}
