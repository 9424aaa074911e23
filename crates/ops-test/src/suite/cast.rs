//! Casts between every two scalar types.
use super::Suite;
use super::data::{Distribution, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use crate::Array;
use crate::types::SCALARS;
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for from in s.asked("cast", SCALARS) {
        for to in SCALARS {
            let draft = |dims: &[usize], x: Placement, y: Placement| {
                // All bit patterns; for floats, that covers every magnitude, infinities and NaN.
                let draft = CaseBuilder::new("cast", from).param("to", to.name());
                draft.read("x", dims, x, Distribution::Bits).write_as("y", to, dims, y)
            };
            for dims in [&[][..], &[1], &[65], &[4097], &[0], &[3, 0]] {
                s.run(draft(dims, Placement::Plain, Placement::Plain));
            }
            for x in IN {
                s.run(draft(&[3, 4, 33], x, Placement::Plain));
            }
            for y in OUT {
                s.run(draft(&[3, 4, 33], Placement::Plain, y));
            }
            s.run(draft(&[2, 5, 31], Placement::Transposed, Placement::Reversed));
            let corners = corners(from);
            let draft = CaseBuilder::new("cast", from).param("to", to.name()).note("corner values");
            let n = [corners.len()];
            s.run(draft.given("x", &corners, &n, Placement::Plain).write_as("y", to, &n, Placement::Plain));
        }
    }
}

/// Values at the corners of casts: the ends of integer and float ranges, halves and ties.
fn corners(from: DType) -> Array {
    if from == DType::I64 {
        return integers();
    }
    let mut values = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 0.5, -0.5, 0.999, -0.999];
    for end in [1.0, 1.5, 2.5, 126.5, 127.0, 128.0, 254.7, 255.0, 255.5, 256.0, 300.0, 448.0, 464.0, 465.0] {
        values.extend([end, -end]);
    }
    // Ends of the ranges of integers and floats.
    for power in [15, 16, 31, 32, 53, 63, 64] {
        let end = 2f64.powi(power);
        values.extend([end, -end, end - 1.0, -end - 1.0, end * (1.0 - 2f64.powi(-24))]);
    }
    values.extend([
        65504.0,
        65519.0,
        65519.99,
        65520.0,
        65536.0,
        -65520.0,
        3.4028235e38,
        3.3961775e38,
        1e39,
        1e300,
    ]);
    // Small magnitudes: the subnormals of every format.
    values.extend([-6, -7, -9, -10, -14, -15, -24, -25, -126, -133, -134, -149, -150].map(|p| 2f64.powi(p)));
    // Ties between neighbours, and values just above and below: they must be rounded once, not twice.
    for bits in [4, 8, 11, 24] {
        let tie = 1.0 + 2f64.powi(-bits);
        for hair in [0.0, 2f64.powi(-40), -(2f64.powi(-40)), 2f64.powi(-52)] {
            values.extend([tie + hair, 3.0 * tie + hair, -(tie + hair)]);
        }
    }
    values_of(from, &values)
}

/// Corner values that only 64-bit integers can represent.
fn integers() -> Array {
    let mut values = vec![i64::MIN, i64::MAX, i64::MIN + 1, 0, 1, -1, 127, 128, -128, -129, 255, 256, -256];
    for power in [8u32, 15, 16, 24, 31, 32, 53, 62] {
        let end = 1i64 << power;
        values.extend([end, -end, end - 1, end + 1, -end - 1]);
        // Ties of floats with 8, 11 and 24 bits, and their neighbours.
        for bits in [8, 11, 24].into_iter().filter(|b| *b <= power) {
            let tie = end + (end >> bits);
            values.extend([tie, tie - 1, tie + 1, -tie, -tie - 1]);
        }
    }
    Array::from_slice(&values).unwrap_or_else(|e| unreachable!("the suite's own data: {e}"))
}
