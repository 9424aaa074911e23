//! Powers.

use super::exp::exp2_approx;
use super::poly;
use crate::element::Element;
use crate::simd::{MAX_LANES, Simd};

/// 2 / ln 2 in two parts.
const TWO_LOG2_E: f32 = 2.885_39;
const TWO_LOG2_E_LOW: f32 = 3.851_926e-8;
/// (log2((1 + r) / (1 − r)) − 2 log2(e) r) / r³ in powers of r², for |r| ≤ 0.172, with relative error 1e-8.
const LOG2_TAIL: [f32; 4] = [0.961_796_7, 0.577_079_8, 0.411_901_1, 0.336_592_73];
/// log2(1 + a) / a on [√½ − 1, √2 − 1], with relative error 1.1e-6: less than a tenth of half a unit of f16 or bf16 in the
/// power, whose exponent is at most 24 or 127 there.
const LOG2_SHORT: [f32; 7] =
    [1.442_696_5, -0.721_363_6, 0.480_626_76, -0.359_371_63, 0.295_699_5, -0.269_320_25, 0.171_624_72];
/// 2ᶠ on ±½, with relative error 1.6e-7. The second is the best one for this polynomial, not ln 2.
#[allow(clippy::approx_constant)]
const EXP2: [f32; 6] = [1.000_000_1, 0.693_147_2, 0.240_221_07, 0.055_503_57, 0.009_676_055, 0.001_339_088_7];
/// Beyond this, 2ᵗ is 0 or infinite in f32.
const MOST: f32 = 250.0;

/// aᵇ, with the special values of C's `pow`. `low` is added to b; it is what b lost when it was rounded to f32.
#[inline(always)]
pub fn pow<S: Simd, T: Element>(s: S, a: S::F, b: S::F, low: f32) -> S::F {
    if const { !S::FUSED } {
        return by_lane(s, a, b, low);
    }
    let y = magnitude::<S, T>(s, s.abs(a), b, low);
    // Computed as the special values are, so that a lane does not depend on whether another lane has one.
    let one = s.splat(1.0);
    let y = s.select(s.eq(a, one), one, s.select(s.eq(b, s.splat(0.0)), one, y));
    let usual = s.both(s.lt(s.splat(0.0), a), s.lt(a, s.splat(f32::INFINITY)));
    let usual = s.both(usual, s.lt(s.abs(b), s.splat(f32::INFINITY)));
    if s.all(usual) { y } else { special(s, a, b, y) }
}

/// Products are not exact without a fused multiply-add, so these instruction sets compute in f64.
#[inline(always)]
fn by_lane<S: Simd>(s: S, a: S::F, b: S::F, low: f32) -> S::F {
    let (mut x, mut e) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
    s.store(&mut x, a);
    s.store(&mut e, b);
    for (x, e) in x.iter_mut().zip(e).take(S::LANES) {
        *x = f64::from(*x).powf(f64::from(e) + f64::from(low)) as f32;
    }
    s.load(&x)
}

/// aᵇ for finite a > 0, b that is not NaN; any number otherwise.
#[inline(always)]
fn magnitude<S: Simd, T: Element>(s: S, a: S::F, b: S::F, low: f32) -> S::F {
    // A subnormal f16 is a normal f32.
    let (scaled, bias) = if T::DIGITS == 11 {
        (a, s.splat(0.0))
    } else {
        let subnormal = s.lt(a, s.splat(f32::MIN_POSITIVE));
        let scaled = s.select(subnormal, s.mul(a, s.splat(8_388_608.0)), a);
        (scaled, s.select(subnormal, s.splat(-23.0), s.splat(0.0)))
    };
    // The exponent that leaves a mantissa in [√½, √2).
    let bits = s.sub_i(s.to_bits(scaled), s.splat_i(std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32));
    let exponent = s.shr_arith::<23>(bits);
    let mantissa = s.from_bits(s.sub_i(s.to_bits(scaled), s.shl::<23>(exponent)));
    let e = s.add(s.from_i32(exponent), bias);
    let above = s.sub(mantissa, s.splat(1.0));
    if T::DIGITS <= 11 {
        let log = s.mul_add(above, poly(s, above, LOG2_SHORT), e);
        let t = s.max_raw(s.splat(-MOST), s.min_raw(s.splat(MOST), s.mul(log, b)));
        return exp2_approx::<S, T>(s, t);
    }

    // log2 of the mantissa is a series in r = (m − 1) / (m + 1).
    let below = s.add(mantissa, s.splat(1.0));
    let inverse = inverse(s, below);
    let r = s.mul(above, inverse);
    let square = s.mul(r, r);
    let tail = s.mul(s.mul(r, square), poly(s, square, LOG2_TAIL));
    // What the quotient lacks, including what the divisor lost when 1 was added.
    let lost = s.sub(s.sub(below, s.splat(1.0)), mantissa);
    let rest = s.mul_add(r, lost, s.neg_mul_add(r, below, above));
    let r_low = s.mul(rest, inverse);
    // high + rest is log2 a to about 40 bits.
    let main = s.mul(r, s.splat(TWO_LOG2_E));
    let main_low = s.neg(s.neg_mul_add(r, s.splat(TWO_LOG2_E), main));
    let low_parts = s.mul_add(r_low, s.splat(TWO_LOG2_E), s.mul_add(r, s.splat(TWO_LOG2_E_LOW), main_low));
    let high = s.add(e, main);
    let rest = s.add(s.sub(main, s.sub(high, e)), s.add(low_parts, tail));

    let t = s.mul(b, high);
    let t_low = s.neg(s.neg_mul_add(b, high, t));
    let t_low = s.mul_add(s.splat(low), high, s.mul_add(b, rest, t_low));
    let t_low = s.select(s.lt(s.abs(t), s.splat(MOST)), t_low, s.splat(0.0));
    // NaN passes through as the second operand.
    let t = s.max_raw(s.splat(-MOST), s.min_raw(s.splat(MOST), t));
    let n = s.round_even(s.add(t, t_low));
    let f = s.add(s.sub(t, n), t_low);
    s.scale_pow2(poly(s, f, EXP2), n)
}

/// 1 / a to about 1e-8, for a near 1. A division would take several times as long.
#[inline(always)]
fn inverse<S: Simd>(s: S, a: S::F) -> S::F {
    let near = s.reciprocal_estimate(a);
    s.mul_add(near, s.neg_mul_add(a, near, s.splat(1.0)), near)
}

/// aᵇ where a is not positive and finite or b is not finite; `y` is |a|ᵇ in all other lanes.
#[inline(always)]
fn special<S: Simd>(s: S, a: S::F, b: S::F, y: S::F) -> S::F {
    let (zero, one, infinity) = (s.splat(0.0), s.splat(1.0), s.splat(f32::INFINITY));
    let size = s.abs(a);
    let (up, down) = (s.lt(zero, b), s.lt(b, zero));
    let y = s.select(s.both(s.eq(size, zero), up), zero, y);
    let y = s.select(s.both(s.eq(size, zero), down), infinity, y);
    let y = s.select(s.both(s.eq(size, infinity), up), infinity, y);
    let y = s.select(s.both(s.eq(size, infinity), down), zero, y);
    let y = s.select(s.eq(size, one), one, y);
    // Negative numbers have powers only with integer exponents, and keep their sign if these are odd.
    let half = s.mul(b, s.splat(0.5));
    let whole = s.eq(s.floor(b), b);
    let even = s.eq(s.floor(half), half);
    let signed = s.select(even, y, s.select(whole, s.with_sign_of(y, a), y));
    let negative = s.both(s.lt(a, zero), s.lt(size, infinity));
    let signed = s.select(negative, s.select(whole, signed, s.splat(f32::NAN)), signed);
    let nan = s.select(s.is_nan(a), a, s.select(s.is_nan(b), b, signed));
    let y = s.select(s.eq(b, zero), one, nan);
    s.select(s.eq(a, one), one, y)
}
