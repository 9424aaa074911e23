//! Activations. The negative tails are computed directly, not as differences from 1, so that they keep their precision.

use std::f32::consts::LOG2_E;

use super::exp::{LN2_HI, LN2_LO, exp_down, exp2_approx};
use super::poly;
use crate::element::Element;
use crate::simd::Simd;

/// 2√(2/π)
const GELU_LINEAR: f32 = 1.595_769_2;
/// 0.044715 · 2√(2/π)
const GELU_CUBIC: f32 = 0.071_354_814;
/// e^(a²/2)·Φ(−a) as a quotient of polynomials in a, with relative error 6e-9 on [0, 14]. No terms cancel.
/// The divisor is 2⁶⁴ times too large, as [`EXP_HALF`] is.
const TAIL: [f32; 5] = [0.5, 0.437_249_64, 0.182_460_82, 0.040_372_194, 0.004_077_551_4];
const TAIL_DIVISOR: [f32; 6] =
    scaled([1.0, 1.672_384_2, 1.199_286_7, 0.467_426_43, 0.101_204_895, 0.010_220_777]);
/// 2⁶⁴·e^(−r/2) on ±ln 2, with relative error 3e-9.
const EXP_HALF: [f32; 7] =
    scaled([1.0, -0.5, 0.124_999_985, -0.020_833_151, 0.002_604_267_8, -0.000_261_519_98, 0.000_021_592_203]);

/// Coefficients times 2⁶⁴.
const fn scaled<const N: usize>(mut c: [f32; N]) -> [f32; N] {
    let mut i = 0;
    while i < N {
        c[i] *= 18_446_744_073_709_551_616.0;
        i += 1;
    }
    c
}

/// e^(a²/2)·Φ(−a) in powers of 1 / (a + 2), starting at the first, with relative error 3e-4 on [0, 14].
const TAIL_BF16: [f32; 4] = [0.401_692_54, 0.718_098_34, 1.962_332_8, -2.012_475_7];
/// e^(a²/2)·Φ(−a) in powers of 1 / (a + 2.75), starting at the first, with relative error 2e-5 on [0, 6], which is enough for
/// f16.
const TAIL_F16: [f32; 5] = [0.395_065_22, 1.219_202_6, 1.137_898_3, 13.475_824, -14.976_539];

/// 1 / (1 + e⁻ˣ)
#[inline(always)]
pub fn sigmoid<S: Simd, T: Element>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    if T::DIGITS <= 11 {
        return gated_approx::<S, T>(s, one, x, s.splat(-LOG2_E));
    }
    let e = exp_down::<S, T>(s, s.neg(s.abs(x)));
    s.div(s.select(s.lt(x, s.splat(0.0)), e, one), s.add(one, e))
}

/// x / (1 + e⁻ˣ); NaN for −∞, as in the formula.
#[inline(always)]
pub fn silu<S: Simd, T: Element>(s: S, x: S::F) -> S::F {
    if T::DIGITS <= 11 { gated_approx::<S, T>(s, x, x, s.splat(-LOG2_E)) } else { gated(s, x, x) }
}

/// ½x(1 + tanh(√(2/π)·(x + 0.044715x³))); NaN for −∞, as in the formula.
#[inline(always)]
pub fn gelu<S: Simd, T: Element>(s: S, x: S::F) -> S::F {
    let square = s.mul(x, x);
    if T::DIGITS <= 11 {
        let slope = s.mul_add(s.splat(-GELU_CUBIC * LOG2_E), square, s.splat(-GELU_LINEAR * LOG2_E));
        return gated_approx::<S, T>(s, x, x, slope);
    }
    let slope = s.mul_add(s.splat(GELU_CUBIC), square, s.splat(GELU_LINEAR));
    gated(s, x, s.mul(x, slope))
}

/// x / (1 + e⁻ᶻ), where z has the sign of x.
#[inline(always)]
fn gated<S: Simd>(s: S, x: S::F, z: S::F) -> S::F {
    let e = exp_down::<S, f32>(s, s.neg(s.abs(z)));
    let numerator = s.select(s.lt(x, s.splat(0.0)), s.mul(x, e), x);
    s.div(numerator, s.add(s.splat(1.0), e))
}

/// y / (1 + 2^(x · slope)), precise enough for 16-bit types.
#[inline(always)]
fn gated_approx<S: Simd, T: Element>(s: S, y: S::F, x: S::F, slope: S::F) -> S::F {
    if T::DIGITS > 8 {
        // If the power is infinite, the result is 0 in f16.
        let e = exp2_approx::<S, T>(s, s.mul(x, slope));
        return s.div(y, s.add(s.splat(1.0), e));
    }
    // Scale everything by 2⁻²⁴, so that the power is finite whenever the result is not 0.
    const SMALL: f32 = 1.0 / 16_777_216.0;
    let e = exp2_approx::<S, T>(s, s.mul_add(x, slope, s.splat(-24.0)));
    let scale = s.reciprocal_estimate(s.add(s.splat(SMALL), e));
    s.mul(y, s.mul(scale, s.splat(SMALL)))
}

/// ½x(1 + erf(x/√2)); NaN for −∞, as in the formula.
#[inline(always)]
pub fn gelu_erf<S: Simd, T: Element>(s: S, x: S::F) -> S::F {
    // Φ(−a) for a = |x|, as e^(−a²/2) times a slowly varying function.
    let a = s.abs(x);
    let tail = if T::DIGITS <= 11 { tail_approx::<S, T>(s, a) } else { tail(s, a) };
    let share = s.select(s.lt(x, s.splat(0.0)), tail, s.sub(s.splat(1.0), tail));
    s.mul(x, share)
}

/// Φ(−a) for a ≥ 0 or NaN.
#[inline(always)]
fn tail<S: Simd>(s: S, a: S::F) -> S::F {
    // Beyond 16 the result is 0. NaN passes through as the second operand.
    let a = s.min_raw(s.splat(16.0), a);
    // −a²/2 is n·ln 2 − r/2, n integral. With a fused multiply-add, the square in r is not rounded.
    let n = s.round_even(s.mul(s.mul(a, a), s.splat(-0.5 * LOG2_E)));
    let r = s.mul_add(a, a, s.mul(n, s.splat(2.0 * LN2_HI)));
    let r = s.mul_add(n, s.splat(2.0 * LN2_LO), r);
    // Both factors are 2⁶⁴ times too large until the division, so that only its result can be subnormal.
    let mut now = [s.add_exponent(poly(s, r, EXP_HALF), n), a];
    s.together(&mut now);
    let [e, a] = now;
    s.div(s.mul(e, poly(s, a, TAIL)), poly(s, a, TAIL_DIVISOR))
}

/// Φ(−a) for a 16-bit a that is ≥ 0 or NaN: its square is exact or infinite.
#[inline(always)]
fn tail_approx<S: Simd, T: Element>(s: S, a: S::F) -> S::F {
    let e = exp2_approx::<S, T>(s, s.mul(s.mul(a, a), s.splat(-0.5 * LOG2_E)));
    let slow = if T::DIGITS <= 8 {
        let t = s.reciprocal_estimate(s.add(a, s.splat(2.0)));
        s.mul(t, poly(s, t, TAIL_BF16))
    } else {
        let t = s.div(s.splat(1.0), s.add(a, s.splat(2.75)));
        s.mul(t, poly(s, t, TAIL_F16))
    };
    s.mul(e, slow)
}
