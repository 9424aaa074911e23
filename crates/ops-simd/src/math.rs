//! Elementary functions of f32 vectors, with their largest error in units in the last place.

pub(crate) mod activation;
pub(crate) mod erf;
pub(crate) mod exp;
pub(crate) mod log;
pub(crate) mod tanh;
pub(crate) mod trig;

pub use activation::{gelu, gelu_erf, sigmoid, silu};
pub use erf::erf;
pub use exp::exp;
pub use log::log;
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
