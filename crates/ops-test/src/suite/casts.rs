//! Casts between every two scalar types.
use super::Suite;
use super::data::{Draw, values_of};
use super::draft::Draft;
use super::place::{How, IN, OUT};
use crate::Array;
use crate::types::SCALARS;
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for from in s.asked("cast", SCALARS) {
        for to in SCALARS {
            let draft = |dims: &[usize], x: How, y: How| {
                // All bit patterns: of floats, every magnitude, infinities and NaN.
                let draft = Draft::new("cast", from).param("to", to.name());
                draft.read("x", dims, x, Draw::Bits).write_as("y", to, dims, y)
            };
            for dims in [&[][..], &[1], &[65], &[4097], &[0], &[3, 0]] {
                s.run(draft(dims, How::Plain, How::Plain));
            }
            for x in IN {
                s.run(draft(&[3, 4, 33], x, How::Plain));
            }
            for y in OUT {
                s.run(draft(&[3, 4, 33], How::Plain, y));
            }
            s.run(draft(&[2, 5, 31], How::Transposed, How::Reversed));
            let corners = corners(from);
            let draft = Draft::new("cast", from).param("to", to.name()).note("corner values");
            let n = [corners.len()];
            s.run(draft.given("x", &corners, &n, How::Plain).write_as("y", to, &n, How::Plain));
        }
    }
}

/// Where some cast has its corners: ends of integer ranges, halves, ties, the ends of float ranges.
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
    // Small ends: subnormals of every format.
    values.extend([-6, -7, -9, -10, -14, -15, -24, -25, -126, -133, -134, -149, -150].map(|p| 2f64.powi(p)));
    // Ties between neighbours, and a hair to either side: one rounding, not two.
    for bits in [4, 8, 11, 24] {
        let tie = 1.0 + 2f64.powi(-bits);
        for hair in [0.0, 2f64.powi(-40), -(2f64.powi(-40)), 2f64.powi(-52)] {
            values.extend([tie + hair, 3.0 * tie + hair, -(tie + hair)]);
        }
    }
    values_of(from, &values)
}

/// The corners of what only 64-bit integers can hold.
fn integers() -> Array {
    let mut values = vec![i64::MIN, i64::MAX, i64::MIN + 1, 0, 1, -1, 127, 128, -128, -129, 255, 256, -256];
    for power in [8u32, 15, 16, 24, 31, 32, 53, 62] {
        let end = 1i64 << power;
        values.extend([end, -end, end - 1, end + 1, -end - 1]);
        // Ties of floats of 8, 11 and 24 bits, and one to either side.
        for bits in [8, 11, 24].into_iter().filter(|b| *b <= power) {
            let tie = end + (end >> bits);
            values.extend([tie, tie - 1, tie + 1, -tie, -tie - 1]);
        }
    }
    Array::from_slice(&values).unwrap_or_else(|e| unreachable!("the suite's own data: {e}"))
}
