//! Comparisons and truth values, in every scalar type.
use super::Suite;
use super::data::{Random, values_of};
use super::draft::CaseBuilder;
use super::grids::{of_one_operand, of_two_operands};
use super::placement::Placement;
use crate::Array;
use crate::types::SCALARS;
use ops_core::DType;
use ops_core::ops::CompareFn;

pub(super) fn cases(s: &mut Suite<'_>) {
    for f in CompareFn::ALL {
        for dtype in s.asked(f.name(), SCALARS) {
            relation(s, f.name(), dtype);
        }
    }
    for dtype in s.asked("logical_not", SCALARS) {
        negation(s, dtype);
    }
}

fn negation(s: &mut Suite<'_>, dtype: DType) {
    let corners = corners(dtype);
    let draft = |dims: &[usize], (x, y): (Placement, Placement)| {
        let values = some(&corners, dims.iter().product(), "right");
        CaseBuilder::new("logical_not", dtype).given("x", &values, dims, x).write_as("y", DType::U8, dims, y)
    };
    of_one_operand(s, draft);
    let n = [corners.len()];
    let draft = CaseBuilder::new("logical_not", dtype).given("x", &corners, &n, Placement::Plain);
    s.run(draft.write_as("y", DType::U8, &n, Placement::Plain).note("corner values"));
}

/// Numbers to compare: few distinct ones, so that many pairs are equal, and the corners of the type.
fn corners(dtype: DType) -> Array {
    if dtype == DType::I64 {
        // Some numbers that are equal as f64.
        let large = 1i64 << 53;
        let corners =
            [i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, large, large + 1, -large - 1, -1, 0, 1];
        return Array::from_slice(&corners).unwrap_or_else(|e| unreachable!("the suite's own data: {e}"));
    }
    if !dtype.is_float() {
        return values_of(dtype, &super::elementwise::bounds(dtype));
    }
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let near = 1.0 + 2f64.powi(1 - dtype.precision().map_or(1, |p| p as i32));
    let tiny = match dtype {
        DType::F16 => 2f64.powi(-24),
        DType::BF16 => 2f64.powi(-133),
        DType::F32 => 2f64.powi(-149),
        DType::F64 => 5e-324,
        _ => 2f64.powi(-9),
    };
    values_of(dtype, &[nan, inf, -inf, 0.0, -0.0, 1.0, near, -1.0, -near, 2.5, tiny, -tiny, -nan])
}

/// `n` of these elements, in an order that depends on `seed`.
fn some(of: &Array, n: usize, seed: &str) -> Array {
    let mut random = Random::of(seed);
    let mut out = super::data::zeroed(of.dtype(), n);
    for at in 0..n {
        let from = (random.next() >> 33) as usize % of.len();
        out.element_mut(at).copy_from_slice(of.element(from));
    }
    out
}

fn relation(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let corners = corners(dtype);
    let draft = |dims: &[usize], [a, b, y]: [Placement; 3]| {
        let n = dims.iter().product();
        let draft = CaseBuilder::new(op, dtype).given("a", &some(&corners, n, "left"), dims, a);
        draft.given("b", &some(&corners, n, "right"), dims, b).write_as("y", DType::U8, dims, y)
    };
    of_two_operands(s, draft);

    // Every pair of corner values.
    let n = corners.len();
    let pairs = |of: fn(usize, usize) -> usize| {
        let mut pairs = super::data::zeroed(dtype, n * n);
        (0..n * n).for_each(|k| pairs.element_mut(k).copy_from_slice(corners.element(of(k, n))));
        pairs
    };
    let (a, b) = (pairs(|k, n| k / n), pairs(|k, n| k % n));
    let draft = CaseBuilder::new(op, dtype).given("a", &a, &[n * n], Placement::Plain);
    let draft = draft.given("b", &b, &[n * n], Placement::Plain);
    s.run(draft.write_as("y", DType::U8, &[n * n], Placement::Plain).note("pairs of corner values"));
}
