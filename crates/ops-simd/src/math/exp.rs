//! The exponential, and eˣ − 1.

use super::poly;
use crate::element::Element;
use crate::simd::Simd;

// ln 2 in two parts: the first has nine zero bits at the end, so that its product with an exponent is exact.
pub(crate) const LN2_HI: f32 = 0.693_145_75;
pub(crate) const LN2_LO: f32 = 1.428_606_8e-6;
/// (eʳ − 1 − r) / r² on ±ln 2 / 2, to 3e-9.
const EXP: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_285, 0.008_368_639, 0.001_381_901];
/// 2ᶠ on [0, 1], with relative error 8e-5.
const EXP2_BF16: [f32; 4] = [0.999_925_2, 0.695_833_5, 0.226_067_17, 0.078_024_52];
/// 2ᶠ on [0, 1], with relative error 3e-6.
const EXP2_F16: [f32; 5] = [1.000_002_6, 0.693_003_83, 0.241_442_75, 0.052_011_464, 0.013_534_167];

/// eˣ, including subnormal results; NaN for NaN, 0 for −∞.
#[inline(always)]
pub fn exp<S: Simd, T: Element>(s: S, x: S::F) -> S::F {
    if T::DIGITS <= 11 {
        return exp2_approx::<S, T>(s, s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    }
    // Beyond these bounds the result is 0 or ∞. NaN passes through as the second operand.
    exp_within(s, s.max_raw(s.splat(-105.0), s.min_raw(s.splat(89.5), x)))
}

/// [`exp`] of numbers ≤ 0 or NaN.
#[inline(always)]
pub(crate) fn exp_down<S: Simd, T: Element>(s: S, x: S::F) -> S::F {
    if T::DIGITS <= 11 { exp::<S, T>(s, x) } else { exp_within(s, s.max_raw(s.splat(-105.0), x)) }
}

/// eˣ for x in [−160, 89.5].
#[inline(always)]
fn exp_within<S: Simd>(s: S, x: S::F) -> S::F {
    let (r, n) = reduce(s, x);
    let p = s.mul_add(s.mul(r, r), poly(s, r, EXP), r);
    s.scale_pow2(s.add(p, s.splat(1.0)), n)
}

/// 2ᵗ to within an eighth of a unit in the last place of a 16-bit type, not counting the error of t.
#[inline(always)]
pub(crate) fn exp2_approx<S: Simd, T: Element>(s: S, t: S::F) -> S::F {
    let (fraction, whole) = s.split(t);
    let p = if T::DIGITS <= 8 { poly(s, fraction, EXP2_BF16) } else { poly(s, fraction, EXP2_F16) };
    s.scale_pow2(p, whole)
}

/// x as n·ln 2 + r, n integral.
#[inline(always)]
fn reduce<S: Simd>(s: S, x: S::F) -> (S::F, S::F) {
    let n = s.round_even(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.neg_mul_add(n, s.splat(LN2_HI), x);
    (s.neg_mul_add(n, s.splat(LN2_LO), r), n)
}

/// eˣ − 1, precise near 0; keeps the sign of zero.
#[inline(always)]
pub fn expm1<S: Simd>(s: S, x: S::F) -> S::F {
    // Beyond these bounds the result rounds to −1 or is ∞. NaN passes through as the second operand.
    let (r, n) = reduce(s, s.max_raw(s.splat(-30.0), s.min_raw(s.splat(89.0), x)));
    let p = s.mul_add(s.mul(r, r), poly(s, r, EXP), r);
    // Half the result, since the power of the largest one would be infinite.
    let half = s.scale_pow2(s.splat(0.5), n);
    let y = s.mul_add(p, half, s.sub(half, s.splat(0.5)));
    // From here on down it is x, which halving may round.
    s.select(s.lt(s.abs(x), s.splat(f32::EPSILON / 8.0)), x, s.add(y, y))
}

/// eˣ − 1, precise near 0, for |x| ≤ 80.
#[inline(always)]
pub(crate) fn exp_minus_one<S: Simd>(s: S, x: S::F) -> S::F {
    let (r, n) = reduce(s, x);
    let p = s.mul_add(s.mul(r, r), poly(s, r, EXP), r);
    let power = s.scale_pow2(s.splat(1.0), n);
    s.mul_add(p, power, s.sub(power, s.splat(1.0)))
}
