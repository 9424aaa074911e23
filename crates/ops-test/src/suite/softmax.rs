//! Softmax and log-softmax.
use super::data::{Distribution, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, LENGTHS, Suite};
use ops_core::DType;

const SPREAD: Distribution = Distribution::Normal(0.0, 3.0);

fn draft(
    op: &str,
    dtype: DType,
    dims: &[usize],
    axis: isize,
    (x, y): (Placement, Placement),
    numbers: Distribution,
) -> CaseBuilder {
    CaseBuilder::new(op, dtype).param("axis", axis).read("x", dims, x, numbers).write("y", dims, y)
}

pub(super) fn cases(s: &mut Suite<'_>) {
    for op in ["softmax", "log_softmax"] {
        for dtype in s.asked(op, FLOATS) {
            sizes(s, op, dtype);
            layouts(s, op, dtype);
            numbers(s, op, dtype);
        }
    }
}

fn sizes(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let plain = (Placement::Plain, Placement::Plain);
    for n in LENGTHS {
        s.run(draft(op, dtype, &[2, n], -1, plain, SPREAD));
        s.run(draft(op, dtype, &[n, 3], 0, plain, SPREAD));
    }
    for (dims, axis) in [(&[65][..], 0), (&[3, 33, 5], 1), (&[3, 33, 5], -2), (&[2, 3, 2, 1, 2, 7], 3)] {
        s.run(draft(op, dtype, dims, axis, plain, SPREAD));
    }
    // On a GPU, two or four of these rows share a workgroup, the last one of which lacks some. With a single compute unit, workgroups take
    // several times as many rows.
    let [many, fewer] = if dtype == DType::F16 { [259, 131] } else { [3, 3] };
    for dims in [[many, 1208], [fewer, 2304]] {
        s.run(draft(op, dtype, &dims, -1, plain, SPREAD));
    }
    for (dims, axis) in [(&[0, 5][..], -1), (&[5, 0], -1), (&[0, 5], 0), (&[0], 0)] {
        s.run(draft(op, dtype, dims, axis, plain, SPREAD));
    }
    // Single rows, so that a rounding of the row's sum is not averaged out.
    for seed in 0..6 {
        let draft = CaseBuilder::new(op, dtype).seed(seed).param("axis", -1);
        s.run(draft.read("x", &[1, 17], Placement::Plain, SPREAD).write("y", &[1, 17], Placement::Plain));
    }
}

fn layouts(s: &mut Suite<'_>, op: &str, dtype: DType) {
    for axis in [-1, 0, 1] {
        for x in IN {
            s.run(draft(op, dtype, &[3, 4, 33], axis, (x, Placement::Plain), SPREAD));
        }
        for y in OUT {
            s.run(draft(op, dtype, &[3, 4, 33], axis, (Placement::Plain, y), SPREAD));
        }
    }
    s.run(draft(op, dtype, &[3, 4, 65], -1, (Placement::Transposed, Placement::Strided), SPREAD));
}

fn numbers(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let plain = (Placement::Plain, Placement::Plain);
    let high = if dtype == DType::BF16 { 200.0 } else { 1000.0 };
    for (mean, deviation) in [(high, 3.0), (-high, 3.0), (0.0, 100.0), (0.0, 0.0)] {
        let numbers = Distribution::Normal(mean, deviation);
        s.run(draft(op, dtype, &[4, 33], -1, plain, numbers).note(&format!("{mean}±{deviation}")));
    }
    // A sum that stops growing in low precision.
    s.run(draft(op, dtype, &[1, 4097], -1, plain, Distribution::Normal(0.0, 0.01)).note("flat"));
    // Powers with significands just above 1, whose rounding error is large, and results just below 2, whose rounding error is
    // small: rounding the powers is detected.
    let steps: Vec<f64> = (0..16).map(|i| if i == 0 { 0.0 } else { -0.6 - 0.0055 * f64::from(i) }).collect();
    let row = CaseBuilder::new(op, dtype).param("axis", -1).given(
        "x",
        &values_of(dtype, &steps),
        &[1, 16],
        Placement::Plain,
    );
    s.run(row.write("y", &[1, 16], Placement::Plain).note("small rounding of results"));
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let rows = [
        [-inf, -inf, -inf, -inf, -inf],
        [-inf, 1.0, -inf, 2.0, -inf],
        [0.5, inf, 1.0, 2.0, 3.0],
        [0.5, 1.0, nan, 2.0, 3.0],
        [-inf, -inf, 3.0, -inf, -inf],
        [-6e4, 6e4, 0.0, -0.0, 1.0],
    ];
    let (values, across) =
        (values_of(dtype, rows.as_flattened()), |axis| CaseBuilder::new(op, dtype).param("axis", axis));
    for axis in [-1, 0] {
        let draft =
            across(axis).given("x", &values, &[6, 5], Placement::Plain).write("y", &[6, 5], Placement::Plain);
        s.run(draft.note("infinities and nan"));
    }
    // Long rows of −∞ except for one element, at positions where a lane may start.
    for at in [0, 64, 4096] {
        let mut row = vec![-inf; 4097];
        row[at] = 1.5;
        let draft = across(-1).given("x", &values_of(dtype, &row), &[1, 4097], Placement::Plain);
        s.run(draft.write("y", &[1, 4097], Placement::Plain).note(&format!("only element {at}")));
    }
}
