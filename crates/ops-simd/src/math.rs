//! Elementary functions of f32 vectors. The largest error over all f32, in units in the last place, where the processor has a fused
//! multiply-add and where it has not:
//!
//! | function | fused | not |
//! |---|---:|---:|
//! | [`exp`] | 1.1 | 1.1 |
//! | [`log`] | 1.1 | 1.1 |
//! | [`sin`], [`cos`] | 2 | 2 |
//! | [`tanh`] | 2.5 | 2.5 |
//! | [`erf`] | 2 | 2.5 |
//! | [`sigmoid`] | 2.5 | 2.5 |
//! | [`silu`] | 3 | 3 |
//! | [`gelu`] | 6 from −1 on, 160 in the negative tail | the same |
//! | [`gelu_erf`] | 6 | 6 from −1 on, 160 in the negative tail |
//!
//! Subnormal arguments and results count; for silu and both gelus a result near the smallest normal may be off by 128 units of
//! the smallest subnormal besides. NaN gives NaN, and no argument is slow but the sine and cosine of numbers beyond 10⁵, which
//! are reduced one by one, exactly.

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
