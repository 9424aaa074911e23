//! Conversions between element types.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::Cast;
use ops_core::{Call, Result, Scalar};

fn cast(x: Raw<'_>, mut y: RawMut<'_>) {
    for (p, q) in x.layout.positions().zip(y.layout.positions()) {
        y.set_wide(q, x.wide(p));
    }
}

impl<T: Scalar> Kernel<Cast<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Cast<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        cast(Raw::any(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
