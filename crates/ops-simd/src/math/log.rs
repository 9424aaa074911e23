//! The natural logarithm, and ln(1 + x).

use super::exp::{LN2_HI, LN2_LO};
use super::poly;
use crate::simd::Simd;

/// (ln(1 + r) − r + r²/2) / r³ for 1 + r in [√½, √2], to 8e-10.
const LOG: [f32; 9] = [
    0.333_333_13,
    -0.250_000_1,
    0.200_020_72,
    -0.166_679_87,
    0.142_203_64,
    -0.124_062_73,
    0.118_835_375,
    -0.116_698_15,
    0.067_489_274,
];

/// ln x, including subnormal arguments: −∞ at ±0, NaN below.
#[inline(always)]
pub fn log<S: Simd>(s: S, x: S::F) -> S::F {
    let normal = s.both(s.le(s.splat(f32::MIN_POSITIVE), x), s.lt(x, s.splat(f32::INFINITY)));
    if s.all(normal) { log_normal(s, x, s.splat(0.0)) } else { log_any(s, x) }
}

/// ln(1 + x), precise near 0; keeps the sign of zero. −∞ at −1, NaN below.
#[inline(always)]
pub fn log1p<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    let sum = s.add(one, x);
    // The rounding error of the sum. Subtracting the larger operand first makes it exact.
    let lost = s.select(s.lt(x, one), s.sub(x, s.sub(sum, one)), s.sub(one, s.sub(sum, x)));
    let near = s.neg_mul_add(s.mul(s.splat(0.5), x), x, x);
    let log = log(s, sum);
    let positive = s.both(s.lt(s.splat(0.0), sum), s.lt(sum, s.splat(f32::INFINITY)));
    let far = s.select(positive, s.add(log, s.div(lost, sum)), log);
    // Below 2⁻¹², what the next term of the series adds is rounded off.
    s.select(s.lt(s.abs(x), s.splat(1.0 / 4096.0)), near, far)
}

/// ln(1 + eˣ). The power is that of −|x|, which cannot overflow.
#[inline(always)]
pub fn softplus<S: Simd>(s: S, x: S::F) -> S::F {
    let power = super::exp::<S, f32>(s, s.neg(s.abs(x)));
    s.add(s.maximum(x, s.splat(0.0)), log1p(s, power))
}

#[inline(always)]
fn log_any<S: Simd>(s: S, x: S::F) -> S::F {
    let subnormal = s.lt(x, s.splat(f32::MIN_POSITIVE));
    let scaled = s.select(subnormal, s.mul(x, s.splat(8_388_608.0)), x);
    let y = log_normal(s, scaled, s.select(subnormal, s.splat(-23.0), s.splat(0.0)));
    let y = s.select(s.eq(x, s.splat(f32::INFINITY)), x, y);
    let y = s.select(s.eq(x, s.splat(0.0)), s.splat(f32::NEG_INFINITY), y);
    s.select(s.le(s.splat(0.0), x), y, s.splat(f32::NAN))
}

/// ln(x · 2^bias) for positive normal x.
#[inline(always)]
fn log_normal<S: Simd>(s: S, x: S::F, bias: S::F) -> S::F {
    // Choose the exponent that leaves a mantissa in [√½, √2).
    let bits = s.sub_i(s.to_bits(x), s.splat_i(std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32));
    let exponent = s.shr_arith::<23>(bits);
    let mantissa = s.from_bits(s.sub_i(s.to_bits(x), s.shl::<23>(exponent)));
    let e = s.add(s.from_i32(exponent), bias);

    let r = s.sub(mantissa, s.splat(1.0));
    let r2 = s.mul(r, r);
    let tail = s.mul(s.mul(r, r2), poly(s, r, LOG));
    let tail = s.mul_add(e, s.splat(LN2_LO), tail);
    let tail = s.neg_mul_add(s.splat(0.5), r2, tail);
    s.mul_add(e, s.splat(LN2_HI), s.add(r, tail))
}
