//! The exponential.

use super::poly;
use crate::simd::Simd;

// ln 2 in two parts: the first has nine zero bits at the end, so that its product with an exponent is exact.
pub(crate) const LN2_HI: f32 = 0.693_145_75;
pub(crate) const LN2_LO: f32 = 1.428_606_8e-6;
/// (eʳ − 1 − r) / r² on ±ln 2 / 2, to 3e-9.
const EXP: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_285, 0.008_368_639, 0.001_381_901];

/// eˣ, subnormal results included; NaN for NaN, 0 for −∞.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    let (r, n) = reduce(s, x);
    finish(s, r, n)
}

/// e to the power of `x + low`, where `low` is far smaller than 1.
#[inline(always)]
pub(crate) fn exp_sum<S: Simd>(s: S, x: S::F, low: S::F) -> S::F {
    let (r, n) = reduce(s, x);
    finish(s, s.add(r, low), n)
}

/// x as n·ln 2 + r, n integral.
#[inline(always)]
fn reduce<S: Simd>(s: S, x: S::F) -> (S::F, S::F) {
    // Beyond these bounds the result is 0 or ∞ all the same. NaN passes as the second operand.
    let x = s.max_raw(s.splat(-105.0), s.min_raw(s.splat(89.5), x));
    let n = s.round_even(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.neg_mul_add(n, s.splat(LN2_HI), x);
    (s.neg_mul_add(n, s.splat(LN2_LO), r), n)
}

#[inline(always)]
fn finish<S: Simd>(s: S, r: S::F, n: S::F) -> S::F {
    let p = s.mul_add(s.mul(r, r), poly(s, r, EXP), r);
    s.scale_pow2(s.add(p, s.splat(1.0)), n)
}

/// eˣ − 1 to the last bits near 0, for |x| ≤ 80.
#[inline(always)]
pub(crate) fn exp_minus_one<S: Simd>(s: S, x: S::F) -> S::F {
    let n = s.round_even(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.neg_mul_add(n, s.splat(LN2_HI), x);
    let r = s.neg_mul_add(n, s.splat(LN2_LO), r);
    let p = s.mul_add(s.mul(r, r), poly(s, r, EXP), r);
    let power = s.scale_pow2(s.splat(1.0), n);
    s.mul_add(p, power, s.sub(power, s.splat(1.0)))
}
