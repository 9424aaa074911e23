//! Elementwise functions with parameters.

use crate::element::{Element, TypedOperands};
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::map::{Map, elementwise};
use crate::math;
use crate::simd::Simd;
use crate::store::Store;

/// A function of one number with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parametric {
    /// x to this power, with the special values of C's `pow`.
    Powf(f64),
    /// min(max(x, first), second); NaN when any is.
    Clamp(f32, f32),
    /// x if x > 0, otherwise this factor times (eˣ − 1).
    Elu(f32),
}

/// y\[i\] = op(x\[i\])
///
/// # Errors
/// [`Error::Length`] when the lengths differ.
pub fn parametric<T: Element>(
    isa: Isa,
    op: Parametric,
    x: &[T],
    y: &mut [T],
    store: Store,
) -> Result<(), Error> {
    same_len("x", x.len(), y.len())?;
    dispatch(isa, op, T::typed_operands([x], [y]), store);
    Ok(())
}

// Not generic, so that the kernels are compiled in this crate.
fn dispatch(isa: Isa, op: Parametric, operands: TypedOperands<'_, 1, 1>, store: Store) {
    match operands {
        TypedOperands::F32(x, [y]) => by_op(isa, op, x, y, store),
        TypedOperands::F16(x, [y]) => by_op(isa, op, x, y, store),
        TypedOperands::Bf16(x, [y]) => by_op(isa, op, x, y, store),
    }
}

fn by_op<T: Element>(isa: Isa, op: Parametric, x: [&[T]; 1], y: &mut [T], store: Store) {
    match op {
        Parametric::Powf(exponent) => {
            let near = exponent as f32;
            let rest = (exponent - f64::from(near)) as f32;
            // An exponent that is infinite in f32 has no second part.
            let low = if rest.is_finite() { rest } else { 0.0 };
            elementwise(isa, Powf { exponent: near, low }, x, y, store);
        }
        Parametric::Clamp(min, max) => elementwise(isa, Clamp { min, max }, x, y, store),
        Parametric::Elu(alpha) => elementwise(isa, Elu { alpha }, x, y, store),
    }
}

#[derive(Clone, Copy)]
struct Powf {
    exponent: f32,
    low: f32,
}

impl Map<1> for Powf {
    const APPROXIMATE: bool = true;
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [x]: [S::F; 1]) -> S::F {
        math::pow::<S, T>(s, x, s.splat(self.exponent), self.low)
    }
}

#[derive(Clone, Copy)]
struct Clamp {
    min: f32,
    max: f32,
}

impl Map<1> for Clamp {
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [x]: [S::F; 1]) -> S::F {
        s.minimum(s.maximum(x, s.splat(self.min)), s.splat(self.max))
    }
}

#[derive(Clone, Copy)]
struct Elu {
    alpha: f32,
}

impl Map<1> for Elu {
    const APPROXIMATE: bool = true;
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [x]: [S::F; 1]) -> S::F {
        let zero = s.splat(0.0);
        // Below −80 the result is −alpha. NaN passes through as the second operand.
        let below = s.max_raw(s.splat(-80.0), s.min_raw(zero, x));
        let below = s.mul(s.splat(self.alpha), math::exp_minus_one(s, below));
        s.select(s.lt(zero, x), x, below)
    }
}
