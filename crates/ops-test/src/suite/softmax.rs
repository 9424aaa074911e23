//! Softmax and its logarithm.
use super::data::{Draw, values_of};
use super::draft::Draft;
use super::place::{How, IN, OUT};
use super::{FLOATS, LENGTHS, Suite};
use ops_core::DType;

const SPREAD: Draw = Draw::Normal(0.0, 3.0);

fn draft(op: &str, dtype: DType, dims: &[usize], axis: isize, (x, y): (How, How), numbers: Draw) -> Draft {
    Draft::new(op, dtype).param("axis", axis).read("x", dims, x, numbers).write("y", dims, y)
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
    let plain = (How::Plain, How::Plain);
    for n in LENGTHS {
        s.run(draft(op, dtype, &[2, n], -1, plain, SPREAD));
        s.run(draft(op, dtype, &[n, 3], 0, plain, SPREAD));
    }
    for (dims, axis) in [(&[65][..], 0), (&[3, 33, 5], 1), (&[3, 33, 5], -2), (&[2, 3, 2, 1, 2, 7], 3)] {
        s.run(draft(op, dtype, dims, axis, plain, SPREAD));
    }
    for (dims, axis) in [(&[0, 5][..], -1), (&[5, 0], -1), (&[0, 5], 0), (&[0], 0)] {
        s.run(draft(op, dtype, dims, axis, plain, SPREAD));
    }
    // Single rows: a rounding of the whole row's sum is not averaged away.
    for seed in 0..6 {
        let draft = Draft::new(op, dtype).seed(seed).param("axis", -1);
        s.run(draft.read("x", &[1, 17], How::Plain, SPREAD).write("y", &[1, 17], How::Plain));
    }
}

fn layouts(s: &mut Suite<'_>, op: &str, dtype: DType) {
    for axis in [-1, 0, 1] {
        for x in IN {
            s.run(draft(op, dtype, &[3, 4, 33], axis, (x, How::Plain), SPREAD));
        }
        for y in OUT {
            s.run(draft(op, dtype, &[3, 4, 33], axis, (How::Plain, y), SPREAD));
        }
    }
    s.run(draft(op, dtype, &[3, 4, 65], -1, (How::Transposed, How::Strided), SPREAD));
}

fn numbers(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let plain = (How::Plain, How::Plain);
    let high = if dtype == DType::BF16 { 200.0 } else { 1000.0 };
    for (mean, deviation) in [(high, 3.0), (-high, 3.0), (0.0, 100.0), (0.0, 0.0)] {
        let numbers = Draw::Normal(mean, deviation);
        s.run(draft(op, dtype, &[4, 33], -1, plain, numbers).note(&format!("{mean}±{deviation}")));
    }
    // A sum that stops growing where it is kept in few bits.
    s.run(draft(op, dtype, &[1, 4097], -1, plain, Draw::Normal(0.0, 0.01)).note("flat"));
    // Powers with significands just above 1, whose rounding is large; results just below 2, whose
    // rounding is small: a rounding of the powers shows.
    let steps: Vec<f64> = (0..16).map(|i| if i == 0 { 0.0 } else { -0.6 - 0.0055 * f64::from(i) }).collect();
    let row =
        Draft::new(op, dtype).param("axis", -1).given("x", &values_of(dtype, &steps), &[1, 16], How::Plain);
    s.run(row.write("y", &[1, 16], How::Plain).note("small rounding of results"));
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
        (values_of(dtype, rows.as_flattened()), |axis| Draft::new(op, dtype).param("axis", axis));
    for axis in [-1, 0] {
        let draft = across(axis).given("x", &values, &[6, 5], How::Plain).write("y", &[6, 5], How::Plain);
        s.run(draft.note("infinities and nan"));
    }
    // Long rows of −∞ but for one element, wherever a lane starts.
    for at in [0, 64, 4096] {
        let mut row = vec![-inf; 4097];
        row[at] = 1.5;
        let draft = across(-1).given("x", &values_of(dtype, &row), &[1, 4097], How::Plain);
        s.run(draft.write("y", &[1, 4097], How::Plain).note(&format!("only element {at}")));
    }
}
