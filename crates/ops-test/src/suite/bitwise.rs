//! Bitwise functions and shifts, in every integer type.
use super::data::{Distribution, values_of};
use super::draft::CaseBuilder;
use super::elementwise::bounds;
use super::grids::{of_one_operand, of_two_operands};
use super::placement::Placement;
use super::{INTEGERS, Suite};
use crate::Array;
use ops_core::DType;
use ops_core::ops::BitwiseFn;

pub(super) fn cases(s: &mut Suite<'_>) {
    for f in BitwiseFn::ALL {
        for dtype in s.asked(f.name(), INTEGERS) {
            of_two(s, f, dtype);
        }
    }
    for dtype in s.asked("bitwise_not", INTEGERS) {
        of_one(s, dtype);
    }
}

/// The number of bits.
fn width(dtype: DType) -> f64 {
    8.0 * dtype.size() as f64
}

fn of_two(s: &mut Suite<'_>, f: BitwiseFn, dtype: DType) {
    // Mostly shifts that leave some bits, besides those by corner values below.
    let second = match f {
        BitwiseFn::ShiftLeft | BitwiseFn::ShiftRight => Distribution::Between(0.0, width(dtype) + 1.0),
        _ => Distribution::Bits,
    };
    let draft = |dims: &[usize], [a, b, y]: [Placement; 3]| {
        let draft = CaseBuilder::new(f.name(), dtype).read("a", dims, a, Distribution::Bits);
        draft.read("b", dims, b, second).write("y", dims, y)
    };
    of_two_operands(s, draft);
    s.run(pairs(f, dtype));
}

/// Corner values with each other and, as numbers of places, with those around the number of bits.
fn pairs(f: BitwiseFn, dtype: DType) -> CaseBuilder {
    let (first, bits) = (bounds(dtype), width(dtype));
    let second = [&first[..], &[5.0, bits - 2.0, bits - 1.0, bits, bits + 1.0, 65.0]].concat();
    let n = first.len() * second.len();
    let all = |of: &dyn Fn(usize) -> f64| -> Array { values_of(dtype, &(0..n).map(of).collect::<Vec<_>>()) };
    let (a, b) = (all(&|k| first[k / second.len()]), all(&|k| second[k % second.len()]));
    let draft = CaseBuilder::new(f.name(), dtype).given("a", &a, &[n], Placement::Plain);
    draft
        .given("b", &b, &[n], Placement::Plain)
        .write("y", &[n], Placement::Plain)
        .note("pairs of corner values")
}

fn of_one(s: &mut Suite<'_>, dtype: DType) {
    let draft = |dims: &[usize], (x, y): (Placement, Placement)| {
        CaseBuilder::new("bitwise_not", dtype).read("x", dims, x, Distribution::Bits).write("y", dims, y)
    };
    of_one_operand(s, draft);
}
