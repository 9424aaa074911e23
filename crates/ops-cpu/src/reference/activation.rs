//! Gated activations.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::host::types::unknown_function;
use crate::{Host, Kernel};
use ops_core::ops::{Glu, GluFn, UnaryFn};
use ops_core::{Call, Float, Result};

fn glu(f: GluFn, gate: Raw<'_>, up: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let f = match f {
        GluFn::Swiglu => UnaryFn::Silu,
        GluFn::Geglu => UnaryFn::Gelu,
        _ => return Err(unknown_function("glu")),
    };
    for ((p, q), r) in gate.layout.positions().zip(up.layout.positions()).zip(y.layout.positions()) {
        y.set(r, f.at(gate.f64(p)) * up.f64(q));
    }
    Ok(())
}

impl<T: Float> Kernel<Glu<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Glu<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        glu(op.function(), Raw::of(&a.gate), Raw::of(&a.up), RawMut::of(&mut a.y))
    }
}
