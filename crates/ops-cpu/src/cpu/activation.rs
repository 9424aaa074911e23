//! Gated activations.
use super::Cpu;
use super::elementwise::apply2;
use super::runs::map_runs;
use super::vectors::{on_vector, only_f64, store_mode};
use crate::host::raw::{Raw, RawMut};
use crate::host::types::unknown_function;
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{Glu, GluFn, UnaryFn};
use ops_core::{Call, Float, Result};
use ops_simd::{Isa, binary as vector_binary};

pub(super) fn glu(f: GluFn, gate: Raw<'_>, up: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    use ops_simd::Binary as V;
    let (isa, dtype, store) = (Isa::best(), gate.dtype, store_mode(y.bytes.len()));
    let (op, wide) = match f {
        GluFn::Swiglu => (V::SwiGlu, UnaryFn::Silu),
        GluFn::Geglu => (V::GeGlu, UnaryFn::Gelu),
        _ => return Err(unknown_function("glu")),
    };
    map_runs("glu", [gate, up], y, 1, 4, &|[gate, up], y| {
        on_vector!(dtype, T => {
            let (gate, up) = (cast_slice::<u8, T>(gate), cast_slice::<u8, T>(up));
            Ok(vector_binary(isa, op, gate, up, cast_slice_mut::<u8, T>(y), store)?)
        }, else {
            only_f64(dtype)?;
            apply2::<f64>(gate, up, y, |g, u| wide.at(g) * u)
        })
    })
}

impl<T: Float> Kernel<Glu<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Glu<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        glu(op.function(), Raw::of(&a.gate), Raw::of(&a.up), RawMut::of(&mut a.y))
    }
}
