//! Activations. The negative tails are computed as tails, not as differences from 1, so that they keep their bits.

use super::exp::{exp, exp_sum};
use super::poly;
use crate::simd::Simd;

/// 2√(2/π)
const GELU_LINEAR: f32 = 1.595_769_2;
/// 0.044715 · 2√(2/π)
const GELU_CUBIC: f32 = 0.071_354_814;
/// (a + 4)·e^(a²/2)·Φ(−a) in powers of (a − 4) / (a + 4), to 2e-8 on [0, 14.5].
const TAIL: [f32; 10] = [
    0.755_285_14,
    -0.607_896_7,
    0.387_136_52,
    -0.186_521_23,
    0.060_407_076,
    -0.007_535_834,
    -0.003_525_964_5,
    0.001_582_578_6,
    0.000_200_385_34,
    -0.000_125_706_28,
];

/// 1 / (1 + e⁻ˣ)
#[inline(always)]
pub fn sigmoid<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    let e = exp(s, s.neg(s.abs(x)));
    s.div(s.select(s.lt(x, s.splat(0.0)), e, one), s.add(one, e))
}

/// x / (1 + e⁻ˣ); NaN for −∞, as the formula has it.
#[inline(always)]
pub fn silu<S: Simd>(s: S, x: S::F) -> S::F {
    gated(s, x, x)
}

/// ½x(1 + tanh(√(2/π)·(x + 0.044715x³))); NaN for −∞, as the formula has it.
#[inline(always)]
pub fn gelu<S: Simd>(s: S, x: S::F) -> S::F {
    let slope = s.mul_add(s.splat(GELU_CUBIC), s.mul(x, x), s.splat(GELU_LINEAR));
    gated(s, x, s.mul(x, slope))
}

/// x / (1 + e⁻ᶻ), z of the sign of x.
#[inline(always)]
fn gated<S: Simd>(s: S, x: S::F, z: S::F) -> S::F {
    let e = exp(s, s.neg(s.abs(z)));
    let numerator = s.select(s.lt(x, s.splat(0.0)), s.mul(x, e), x);
    s.div(numerator, s.add(s.splat(1.0), e))
}

/// ½x(1 + erf(x/√2)); NaN for −∞, as the formula has it.
#[inline(always)]
pub fn gelu_erf<S: Simd>(s: S, x: S::F) -> S::F {
    // Φ(−a) for a = |x| as e^(−a²/2) times a slow function; beyond 20 it is 0 anyway.
    let a = s.min_raw(s.splat(20.0), s.abs(x));
    let square = s.mul(a, a);
    let half = s.splat(-0.5);
    let rest = s.neg_mul_add(a, a, square);
    let e = exp_sum(s, s.mul(half, square), s.mul(s.splat(0.5), rest));
    let scale = s.div(s.splat(1.0), s.add(a, s.splat(4.0)));
    let t = s.mul(s.sub(a, s.splat(4.0)), scale);
    let tail = s.mul(e, s.mul(scale, poly(s, t, TAIL)));
    let share = s.select(s.lt(x, s.splat(0.0)), tail, s.sub(s.splat(1.0), tail));
    s.mul(x, share)
}
