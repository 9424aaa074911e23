//! Functions with parameters.
use super::Reference;
use crate::host::raw::{Raw, RawMut, on_num};
use crate::host::types::{parametric_function, unknown_function};
use crate::{Host, Kernel};
use ops_core::ops::{Parametric, ParametricFn};
use ops_core::{Call, Num, Result};

fn parametric(f: ParametricFn, x: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let positions = x.layout.positions().zip(y.layout.positions());
    on_num!(x.dtype, T => {
        let f = parametric_function::<T>(f);
        let (x, y) = (x.slice::<T>(), y.slice::<T>());
        positions.for_each(|(p, q)| y[q] = f(x[p]));
        Ok(())
    }, else Err(unknown_function(f.name())))
}

impl<T: Num> Kernel<Parametric<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Parametric<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        parametric(op.function(), Raw::of(&a.x), RawMut::of(&mut a.y))
    }
}
