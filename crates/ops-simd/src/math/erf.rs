//! The error function.

use super::exp::exp_minus_one;
use super::poly;
use crate::simd::Simd;

/// 2/√π, the first coefficient of −ln(1 − erf(x)); its remainder is the first entry of [`LOG_TAIL`].
const FIRST: f32 = -std::f32::consts::FRAC_2_SQRT_PI;
/// ln(1 − erf(x)) / x in powers of x on [0, 4], with an error of 4e-9 in erf.
const LOG_TAIL: [f32; 9] = [
    5.863_538_3e-8,
    -0.636_619_5,
    -0.102_776_88,
    0.019_150_02,
    0.000_165_344_08,
    -0.001_671_405_4,
    0.000_634_953_8,
    -0.000_118_161_94,
    9.306_662e-6,
];

/// erf x; keeps the sign of zero.
#[inline(always)]
pub fn erf<S: Simd>(s: S, x: S::F) -> S::F {
    // Beyond 4 the result is 1 in f32. NaN passes through as the second operand.
    let a = s.min_raw(s.splat(4.0), s.abs(x));
    let log = s.mul_add(a, s.splat(FIRST), s.mul(a, poly(s, a, LOG_TAIL)));
    s.with_sign_of(s.abs(exp_minus_one(s, log)), x)
}
