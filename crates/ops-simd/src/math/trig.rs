//! Sine and cosine.

use super::poly;
use crate::simd::{MAX_LANES, Simd};

/// The largest argument for the vector reduction.
const MAX_VECTOR_ARGUMENT: f32 = 1e5;
/// (sin(x)/x − 1) / x² in powers of x², to 4e-9 for |x| ≤ π/4.
const SIN: [f32; 4] = [-0.166_666_67, 0.008_333_38, -0.000_198_534_91, 2.837_305_6e-6];
/// (cos(x) − 1 + x²/2) / x⁴ in powers of x², to 1e-10 for |x| ≤ π/4.
const COS: [f32; 3] = [0.041_666_646, -0.001_388_731, 2.443_242_6e-5];

/// sin x; NaN for ±∞.
#[inline(always)]
pub fn sin<S: Simd>(s: S, x: S::F) -> S::F {
    let (r, quadrant) = reduce(s, x);
    // Preserves −0, which the reduction may lose.
    let r = s.select(s.eq(x, s.splat(0.0)), x, r);
    quarter(s, r, quadrant)
}

/// cos x; NaN for ±∞.
#[inline(always)]
pub fn cos<S: Simd>(s: S, x: S::F) -> S::F {
    let (r, quadrant) = reduce(s, x);
    quarter(s, r, s.add_i(quadrant, s.splat_i(1)))
}

/// sin(r + quadrant · π/2)
#[inline(always)]
fn quarter<S: Simd>(s: S, r: S::F, quadrant: S::I) -> S::F {
    let r2 = s.mul(r, r);
    let sine = s.mul_add(s.mul(r, r2), poly(s, r2, SIN), r);
    let cosine = s.neg_mul_add(s.splat(0.5), r2, s.splat(1.0));
    let cosine = s.mul_add(s.mul(r2, r2), poly(s, r2, COS), cosine);
    let odd = s.eq_i(s.and_i(quadrant, s.splat_i(1)), s.splat_i(1));
    let sign = s.shl::<30>(s.and_i(quadrant, s.splat_i(2)));
    s.from_bits(s.xor_i(s.to_bits(s.select(odd, cosine, sine)), sign))
}

#[inline(always)]
fn reduce<S: Simd>(s: S, x: S::F) -> (S::F, S::I) {
    let large = s.lt(s.splat(MAX_VECTOR_ARGUMENT), s.abs(x));
    if s.any(large) { reduce_lanes(s, x) } else { s.reduce_half_pi(x) }
}

/// [`Simd::reduce_half_pi`] for one number in f64, for processors without a fused multiply-add. NaN and ±∞ give NaN.
#[inline(always)]
pub(crate) fn reduce_in_f64(x: f32) -> (f32, i32) {
    // The first part has 33 bits: its product with a multiple below 2²⁰ is exact.
    const HI: f64 = 1.570_796_326_734_125_6;
    const LO: f64 = 6.077_100_506_506_192e-11;
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    let x = f64::from(x);
    let shifted = x * std::f64::consts::FRAC_2_PI + MAGIC;
    let n = shifted - MAGIC;
    (((x - n * HI) - n * LO) as f32, shifted.to_bits() as i32)
}

/// Reduces exactly at any magnitude, one lane at a time.
#[inline(always)]
fn reduce_lanes<S: Simd>(s: S, x: S::F) -> (S::F, S::I) {
    let mut lanes = [0.0; MAX_LANES];
    s.store(&mut lanes, x);
    let quadrants = reduce_array(&mut lanes);
    let quadrants = s.to_i32(s.load(&quadrants));
    (s.load(&lanes), quadrants)
}

/// Replaces each number by its remainder and returns the quadrants, as f32: 0 to 3.
#[inline(never)]
fn reduce_array(lanes: &mut [f32; MAX_LANES]) -> [f32; MAX_LANES] {
    let mut quadrants = [0.0; MAX_LANES];
    for (x, quadrant) in lanes.iter_mut().zip(&mut quadrants) {
        let (r, q) = if x.abs() > MAX_VECTOR_ARGUMENT { reduce_exactly(*x) } else { reduce_in_f64(*x) };
        (*x, *quadrant) = (r, (q & 3) as f32);
    }
    quadrants
}

/// 2/π in binary after the point, with enough words for the largest exponent of f32 and the bits after it.
const TWO_OVER_PI: [u64; 4] =
    [0xa2f9_836e_4e44_1529, 0xfc27_57d1_f534_ddc0, 0xdb62_9599_3c43_9041, 0xfe51_63ab_debb_c561];

/// Multiplies the mantissa by the bits of 2/π that matter. Bits worth more than 4 do not affect the quadrant, and bits far
/// below the remainder's last bit do not affect the remainder.
fn reduce_exactly(x: f32) -> (f32, i32) {
    if !x.is_finite() {
        return (f32::NAN, 0);
    }
    let bits = x.abs().to_bits();
    let mantissa = u128::from(bits & 0x007f_ffff | 0x0080_0000);
    // |x| = mantissa · 2^shift, with shift ≥ −7 because |x| > 1e5.
    let shift = (bits >> 23) as i32 - 150;
    // Use the bits of 2/π from `skip` on; those before contribute multiples of 4 to the product.
    let skip = (shift - 2).max(0) as usize;
    let (word, bit) = (skip / 64, skip % 64);
    let at = |i: usize| u128::from(TWO_OVER_PI.get(i).copied().unwrap_or(0));
    let high = at(word) << 64 | at(word + 1);
    let window = if bit == 0 { high } else { high << bit | at(word + 2) >> (64 - bit) };
    // window · 2^(−128 − skip) approximates the rest of 2/π; 96 bits of it leave room for the product.
    let product = mantissa * (window >> 32);
    // The product's unit is 2^(shift − skip − 96); put the binary point at bit 126.
    let point = (30 + shift - skip as i32) as u32;
    let fixed = product << point;
    let quadrant = (fixed >> 126) as i32;
    let fraction = (fixed << 2) as i128;
    // A fraction of a half or more is a negative remainder in the next quadrant.
    let quadrant = quadrant + i32::from(fraction < 0);
    let r = fraction as f64 * (std::f64::consts::FRAC_PI_2 / 2f64.powi(128));
    if x < 0.0 { (-r as f32, -quadrant) } else { (r as f32, quadrant) }
}
