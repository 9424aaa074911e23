//! The error function.

use super::exp::exp;
use super::poly;
use crate::simd::Simd;

const BRANCH: f32 = 0.9;
/// erf(x)/x − 1 in powers of x², to 9e-10 for |x| ≤ 0.9.
const SMALL: [f32; 7] =
    [0.128_379_17, -0.376_126_3, 0.112_836_27, -0.026_855_718, 0.005_192_158, -0.000_804_438, 7.962_680_7e-5];
/// ln(1 − erf(x)) on [0.9, 4], good to 6e-11 in erf.
const LARGE: [f32; 8] = [
    0.000_169_203_86,
    -1.129_488_3,
    -0.633_400_86,
    -0.108_220_37,
    0.025_080_604,
    -0.004_156_25,
    0.000_431_392_5,
    -2.082_852_4e-5,
];

/// erf x; keeps the sign of zero.
#[inline(always)]
pub fn erf<S: Simd>(s: S, x: S::F) -> S::F {
    let magnitude = s.abs(x);
    let small = s.mul_add(x, poly(s, s.mul(x, x), SMALL), x);
    // Beyond 4 it is 1 in f32.
    let z = s.min_raw(s.splat(4.0), magnitude);
    let large = s.sub(s.splat(1.0), exp(s, poly(s, z, LARGE)));
    s.select(s.lt(magnitude, s.splat(BRANCH)), small, s.with_sign_of(large, x))
}
