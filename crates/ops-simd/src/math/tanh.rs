//! The hyperbolic tangent.

use super::exp::exp_minus_one;
use crate::simd::Simd;

/// tanh x; keeps the sign of zero.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    // (e^2a − 1) / (e^2a + 1) for a = |x|; beyond 10 it is 1 in f32. NaN passes through as the second operand.
    let a = s.min_raw(s.splat(10.0), s.abs(x));
    let e = exp_minus_one(s, s.add(a, a));
    s.with_sign_of(s.div(e, s.add(e, s.splat(2.0))), x)
}
