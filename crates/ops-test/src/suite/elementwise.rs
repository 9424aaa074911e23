//! Elementwise arithmetic.
use super::data::{Distribution, NORMAL, values_of};
use super::draft::CaseBuilder;
use super::grids::of_two_operands;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, INTEGERS, LENGTHS, Suite};
use crate::Array;
use ops_core::DType;
use ops_core::ops::BinaryFn;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in FLOATS.into_iter().chain(INTEGERS) {
        let numbers = if dtype.is_float() { NORMAL } else { Distribution::Bits };
        for f in BinaryFn::ALL {
            if s.wants(f.name(), dtype) {
                binary(s, f, dtype, numbers);
            }
        }
        for op in ["affine", "affine_inplace"] {
            if s.wants(op, dtype) {
                affine(s, op, dtype, numbers);
            }
        }
    }
}

/// Corner values of integers: the ends of the range, and values around zero.
pub(super) fn bounds(dtype: DType) -> Vec<f64> {
    // Casts saturate, including to the highest i64, which f64 cannot represent.
    let end = |beyond: f64| values_of(dtype, &[beyond]).to_f64().map_or(0.0, |end| end[0]);
    let (low, high) = (end(f64::MIN), end(f64::MAX));
    vec![low, high, low / 2.0, high / 2.0, 0.0, 1.0, if low < 0.0 { -1.0 } else { 2.0 }, 3.0]
}

fn draft(
    f: BinaryFn,
    dtype: DType,
    dims: &[usize],
    [a, b, y]: [Placement; 3],
    numbers: Distribution,
) -> CaseBuilder {
    // Bounded away from zero: otherwise the error of dividing by almost zero would dominate all others.
    let divisor = if f == BinaryFn::Div && dtype.is_float() { Distribution::Nonzero } else { numbers };
    // Negative numbers have powers only with integer exponents.
    let base = if f == BinaryFn::Pow && dtype.is_float() { Distribution::Positive } else { numbers };
    CaseBuilder::new(f.name(), dtype).read("a", dims, a, base).read("b", dims, b, divisor).write("y", dims, y)
}

fn binary(s: &mut Suite<'_>, f: BinaryFn, dtype: DType, numbers: Distribution) {
    of_two_operands(s, |dims, how| draft(f, dtype, dims, how, numbers));

    // Every pair of corner values.
    let corners = if dtype.is_float() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        vec![nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.0, 3.0, 0.5]
    } else {
        bounds(dtype)
    };
    let n = corners.len();
    let of = |i: fn(usize, usize) -> usize| -> Array {
        values_of(dtype, &(0..n * n).map(|k| corners[i(k, n)]).collect::<Vec<_>>())
    };
    let draft = CaseBuilder::new(f.name(), dtype).given("a", &of(|k, n| k / n), &[n * n], Placement::Plain);
    let draft = draft.given("b", &of(|k, n| k % n), &[n * n], Placement::Plain).write(
        "y",
        &[n * n],
        Placement::Plain,
    );
    s.run(draft.note("pairs of corner values"));
}

fn affine(s: &mut Suite<'_>, op: &str, dtype: DType, numbers: Distribution) {
    let draft = |dims: &[usize], (x, y): (Placement, Placement), (mul, add): (f64, f64)| {
        let draft = CaseBuilder::new(op, dtype).param("mul", mul).param("add", add);
        let mut values = CaseBuilder::new(op, dtype).read("x", dims, x, numbers);
        if op == "affine" {
            return draft.read("x", dims, x, numbers).write("y", dims, y);
        }
        let logical = values.case().operands.first().and_then(|o| o.array.gather(&o.layout).ok());
        draft.inout("x", &logical.unwrap_or_else(|| values_of(dtype, &[])), dims, y)
    };
    let (plain, usual) = ((Placement::Plain, Placement::Plain), (1.5, -0.25));
    for n in LENGTHS {
        s.run(draft(&[n], plain, usual));
    }
    for dims in [&[][..], &[3, 65], &[0], &[3, 0], &[2, 1, 3, 2, 2, 5]] {
        s.run(draft(dims, plain, usual));
    }
    for y in OUT {
        s.run(draft(&[3, 4, 33], (Placement::Plain, y), usual));
    }
    if op == "affine" {
        for x in IN {
            s.run(draft(&[3, 4, 33], (x, Placement::Plain), usual));
        }
    }
    for (mul, add) in [(0.0, 3.0), (1.0, 0.0), (-2.0, 0.5), (0.1, 100.0), (1e-3, 0.0)] {
        s.run(draft(&[65], plain, (mul, add)));
    }
}
