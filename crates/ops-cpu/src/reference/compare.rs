//! Comparisons.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Compare, CompareFn};
use ops_core::{Call, Result, Scalar};

fn compare(f: CompareFn, a: Raw<'_>, b: Raw<'_>, mut y: RawMut<'_>) {
    for ((p, q), r) in a.layout.positions().zip(b.layout.positions()).zip(y.layout.positions()) {
        y.element(r)[0] = f.holds(a.wide(p), b.wide(q)).into();
    }
}

impl<T: Scalar> Kernel<Compare<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Compare<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        compare(op.function(), Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.y));
        Ok(())
    }
}
