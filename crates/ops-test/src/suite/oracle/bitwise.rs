//! Bitwise functions, from sums of powers of two; shifts, as products and quotients.
use super::integers::{self, integers, width, wrap};
use super::{Wants, exactly};
use crate::{CallError, Case};

/// The ops computed here.
pub(super) const OPS: &[&str] =
    &["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "bitwise_not"];

pub(super) fn wants(case: &Case) -> Wants {
    let range = width(case.dtype);
    let range = range.ok_or_else(|| CallError::Malformed(format!("no integers of {}", case.dtype)))?;
    let bits = range.0;
    let y: Vec<i64> = if case.op == "bitwise_not" {
        integers(case, "x")?.iter().map(|x| wrap(-x - 1, range)).collect()
    } else {
        let (a, b) = (integers(case, "a")?, integers(case, "b")?);
        a.iter().zip(b).map(|(a, b)| wrap(of(&case.op, bits, *a, b), range)).collect()
    };
    Ok(vec![exactly("y", integers::array(case.dtype, &y)?)])
}

fn of(op: &str, bits: u32, a: i128, b: i128) -> i128 {
    let inside = (0..i128::from(bits)).contains(&b);
    let power = if inside { 1i128 << b } else { 0 };
    match op {
        "shift_left" => a * power,
        // Beyond the last bit, as if by all of them.
        "shift_right" => a.div_euclid(if inside { power } else { 1 << bits }),
        _ => (0..bits).map(|at| i128::from(joined(op, digit(a, at), digit(b, at))) << at).sum(),
    }
}

/// The bit of weight `2^at`, in two's complement.
fn digit(v: i128, at: u32) -> bool {
    v.div_euclid(1 << at).rem_euclid(2) == 1
}

fn joined(op: &str, a: bool, b: bool) -> bool {
    match op {
        "bitwise_and" => a && b,
        "bitwise_or" => a || b,
        _ => a != b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_known_from_arithmetic() {
        assert_eq!([-1, 7, 8].map(|b| of("shift_left", 8, 3, b)), [0, 3 << 7, 0]);
        assert_eq!([-1, 1, 7, 8].map(|b| of("shift_right", 8, -5, b)), [-1, -3, -1, -1]);
        assert_eq!(of("shift_right", 8, 255, 8), 0);
        assert_eq!(wrap(of("bitwise_and", 8, -2, 7), (8, true)), 6);
        assert_eq!(wrap(of("bitwise_or", 8, -128, 1), (8, true)), -127);
        assert_eq!(wrap(of("bitwise_xor", 8, 255, 1), (8, false)), 254);
    }
}
