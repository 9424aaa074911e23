//! The hyperbolic tangent.

use super::exp::exp;
use super::poly;
use crate::simd::Simd;

/// (tanh(x)/x − 1) / x² in powers of x², to 5e-9 for |x| ≤ 0.625.
const TANH: [f32; 5] = [-0.333_332_8, 0.133_314_06, -0.053_736_545, 0.020_628_3, -0.005_692_472];

/// tanh x; keeps the sign of zero.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let magnitude = s.abs(x);
    let x2 = s.mul(x, x);
    let small = s.mul_add(s.mul(x, x2), poly(s, x2, TANH), x);
    let one = s.splat(1.0);
    let e = exp(s, s.add(magnitude, magnitude));
    let large = s.sub(one, s.div(s.splat(2.0), s.add(e, one)));
    s.select(s.lt(magnitude, s.splat(0.625)), small, s.with_sign_of(large, x))
}
