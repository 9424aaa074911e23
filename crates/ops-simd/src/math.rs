//! Elementary functions of f32 vectors. The table bounds their error in units in the last place, with and without a fused
//! multiply-add. Tests check the bounds on a sample of all f32; ignored tests check every f32.
//!
//! | function | fused | not fused |
//! |---|---:|---:|
//! | [`exp`], [`log`] | 1.1 | 1.1 |
//! | [`expm1`], [`log1p`] | 2 | 2 |
//! | [`softplus`] | 3 | 3 |
//! | [`sin`], [`cos`] | 2 | 2 |
//! | [`tanh`] | 3 | 3 |
//! | [`erf`] | 2.5 | 3 |
//! | [`sigmoid`] | 3 | 3 |
//! | [`silu`] | 4 | 4 |
//! | [`gelu`] | 8; below −1, 250 | 8; below −1, 250 |
//! | [`gelu_erf`] | 8 | 8; below −1, 250 |
//!
//! [`pow`] has a relative error below 5e-7 in f32, for every exponent.
//!
//! [`exp`], [`sigmoid`], [`silu`], [`gelu`] and [`gelu_erf`] take the type that their result will be rounded to, and do less
//! work for f16 and bf16. The rounded result is within 5/8 of a unit in the last place of that type, tested over all its
//! numbers. The other functions are equally precise for every type.
//!
//! Subnormal arguments and results are supported. For silu and both gelus, a result near the smallest normal number may
//! also be off by 128 units of the smallest subnormal. NaN gives NaN. No argument is slow, except in the sine and cosine of
//! numbers beyond 10⁵, which are reduced exactly, one by one.

pub(crate) mod activation;
pub(crate) mod erf;
pub(crate) mod exp;
pub(crate) mod log;
pub(crate) mod pow;
pub(crate) mod tanh;
pub(crate) mod trig;

pub use activation::{gelu, gelu_erf, sigmoid, silu};
pub use erf::erf;
pub use exp::{exp, expm1};
pub(crate) use exp::{exp_down, exp_minus_one};
pub use log::{log, log1p, softplus};
pub use pow::pow;
pub use tanh::tanh;
pub use trig::{cos, sin};

use crate::simd::Simd;

/// The polynomial with coefficients `c`, constant first, at `x`.
#[inline(always)]
pub(crate) fn poly<S: Simd, const N: usize>(s: S, x: S::F, c: [f32; N]) -> S::F {
    let mut y = s.splat(c[N - 1]);
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        y = s.mul_add(y, x, s.splat(c[i]));
    }
    y
}
