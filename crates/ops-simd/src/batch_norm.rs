//! Normalisation with a mean and a scale that are known in advance.

use crate::element::{Element, TypedOperands};
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::map::{Map, elementwise};
use crate::simd::Simd;
use crate::store::Store;

/// (x − mean) · scale + bias, in f32. The mean may have more digits than f32 holds: it is kept in two parts,
/// and both are subtracted from x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    mean: f32,
    rest: f32,
    scale: f32,
    bias: f32,
}

impl Normalize {
    /// With this mean, scale and bias.
    pub fn new(mean: f64, scale: f64, bias: f64) -> Self {
        let near = mean as f32;
        let rest = (mean - f64::from(near)) as f32;
        // A mean that is infinite in f32 has no second part.
        Normalize {
            mean: near,
            rest: if rest.is_finite() { rest } else { 0.0 },
            scale: scale as f32,
            bias: bias as f32,
        }
    }
}

impl Map<1> for Normalize {
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [x]: [S::F; 1]) -> S::F {
        let centred = s.sub(s.sub(x, s.splat(self.mean)), s.splat(self.rest));
        s.mul_add(centred, s.splat(self.scale), s.splat(self.bias))
    }
}

/// y\[i\] = (x\[i\] − mean) · scale + bias
///
/// # Errors
/// [`Error::Length`] when the lengths differ.
pub fn normalize<T: Element>(
    isa: Isa,
    by: Normalize,
    x: &[T],
    y: &mut [T],
    store: Store,
) -> Result<(), Error> {
    same_len("x", x.len(), y.len())?;
    dispatch(isa, by, T::typed_operands([x], [y]), store);
    Ok(())
}

// Not generic, so that the kernels are compiled in this crate.
fn dispatch(isa: Isa, by: Normalize, operands: TypedOperands<'_, 1, 1>, store: Store) {
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
    fn both_parts_of_a_mean_count() {
        let mean = 1000.0 + 1e-6;
        let by = Normalize::new(mean, 2.0, 0.5);
        for isa in Isa::available() {
            for n in [1, 33, 4100] {
                let x = vec![1001.0f32; n];
                let mut y = vec![0.0; n];
                normalize(isa, by, &x, &mut y, Store::Cached).unwrap();
                let want = ((1001.0 - mean) * 2.0 + 0.5) as f32;
                assert!(y.iter().all(|y| (y - want).abs() < 3e-7), "{} {}", isa.name(), y[0]);
            }
        }
        let mut y = [0.0f32];
        normalize(Isa::best(), Normalize::new(1e300, 1.0, 0.0), &[1.0f32], &mut y, Store::Cached).unwrap();
        assert_eq!(y, [f32::NEG_INFINITY]);
        assert!(normalize(Isa::best(), by, &[1.0f32], &mut [], Store::Cached).is_err());
    }
}
