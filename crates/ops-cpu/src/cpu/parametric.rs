//! Functions with parameters.
use super::Cpu;
use super::runs::map_runs;
use super::vectors::{on_vector, store_mode, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_num};
use crate::host::types::{parametric_function, unknown_function};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{Parametric, ParametricFn};
use ops_core::{Call, Num, Result};
use ops_simd::Isa;

pub(super) fn parametric(f: ParametricFn, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    use ops_simd::Parametric as V;
    let (isa, dtype, store) = (Isa::best(), x.dtype, store_mode(y.bytes.len()));
    let (op, cost) = match f {
        ParametricFn::Powf { exponent } => (V::Powf(exponent), 4),
        ParametricFn::Clamp { min, max } => (V::Clamp(min.to_f64() as f32, max.to_f64() as f32), 1),
        ParametricFn::Elu { alpha } => (V::Elu(alpha as f32), 4),
        other => return Err(unknown_function(other.name())),
    };
    map_runs(f.name(), [x], y, 1, cost, &|[x], y| {
        on_vector!(dtype, T => {
            Ok(ops_simd::parametric(isa, op, cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y), store)?)
        }, else on_num!(dtype, T => {
            let f = parametric_function::<T>(f);
            let elements = cast_slice_mut::<u8, T>(y).iter_mut().zip(cast_slice::<u8, T>(x));
            elements.for_each(|(y, x)| *y = f(*x));
            Ok(())
        }, else Err(unsupported_dtype(dtype))))
    })
}

impl<T: Num> Kernel<Parametric<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Parametric<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        parametric(op.function(), Raw::of(&a.x), RawMut::of(&mut a.y))
    }
}
