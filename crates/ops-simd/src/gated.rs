//! Gated activations of bounded operands.

use crate::element::{Element, TypedOperands};
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::map::{Map, elementwise};
use crate::math;
use crate::simd::Simd;
use crate::store::Store;

/// g · sigmoid(alpha · g) · (u + 1), with g = min(gate, limit) and u between −limit and limit. NaN stays NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwigluClamped {
    /// Multiplies the gate inside the sigmoid.
    pub alpha: f32,
    /// The largest gate, and the largest magnitude of u.
    pub limit: f32,
}

impl Map<2> for SwigluClamped {
    const APPROXIMATE: bool = true;
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [gate, up]: [S::F; 2]) -> S::F {
        let g = s.minimum(gate, s.splat(self.limit));
        let u = s.minimum(s.maximum(up, s.splat(-self.limit)), s.splat(self.limit));
        let gated = s.mul(g, math::sigmoid::<S, T>(s, s.mul(g, s.splat(self.alpha))));
        s.mul(gated, s.add(u, s.splat(1.0)))
    }
}

/// y\[i\] = by(gate\[i\], up\[i\])
///
/// # Errors
/// [`Error::Length`] when the lengths differ.
pub fn swiglu_clamped<T: Element>(
    isa: Isa,
    by: SwigluClamped,
    gate: &[T],
    up: &[T],
    y: &mut [T],
    store: Store,
) -> Result<(), Error> {
    same_len("gate", gate.len(), y.len())?;
    same_len("up", up.len(), y.len())?;
    dispatch(isa, by, T::typed_operands([gate, up], [y]), store);
    Ok(())
}

// Not generic, so that the kernels are compiled in this crate.
fn dispatch(isa: Isa, by: SwigluClamped, operands: TypedOperands<'_, 2, 1>, store: Store) {
    match operands {
        TypedOperands::F32(x, [y]) => elementwise(isa, by, x, y, store),
        TypedOperands::F16(x, [y]) => elementwise(isa, by, x, y, store),
        TypedOperands::Bf16(x, [y]) => elementwise(isa, by, x, y, store),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_operands_are_bounded_and_nan_stays() {
        let by = SwigluClamped { alpha: 1.702, limit: 7.0 };
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let gate = [0.0, 8.0, inf, nan, 1.0, -100.0, 1.0, 2.0, 3.0];
        let up = [5.0, 100.0, -inf, 1.0, nan, 1.0, -1.0, inf, 0.5];
        for isa in Isa::available() {
            let mut y = [0.0; 9];
            swiglu_clamped(isa, by, &gate, &up, &mut y, Store::Cached).unwrap();
            for ((y, g), u) in y.iter().zip(gate).zip(up) {
                let (g, u) = (if g > 7.0 { 7.0 } else { g }, if u.is_nan() { u } else { u.clamp(-7.0, 7.0) });
                let want = f64::from(g) / (1.0 + (-1.702 * f64::from(g)).exp()) * (f64::from(u) + 1.0);
                let near = (f64::from(*y) - want).abs() <= 1e-5 * want.abs() + f64::from(f32::MIN_POSITIVE);
                assert!(near || y.is_nan() && want.is_nan(), "{} {g} {u}: {y}, wanted {want}", isa.name());
            }
        }
        assert!(swiglu_clamped(Isa::best(), by, &gate, &up[1..], &mut [0.0; 9], Store::Cached).is_err());
    }
}
