//! Comparisons and truth values.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Compare, CompareFn, LogicalNot};
use ops_core::{Call, Result, Scalar};

fn compare(f: CompareFn, a: Raw<'_>, b: Raw<'_>, mut y: RawMut<'_>) {
    for ((p, q), r) in a.layout.positions().zip(b.layout.positions()).zip(y.layout.positions()) {
        y.element(r)[0] = f.holds(a.wide(p), b.wide(q)).into();
    }
}

impl<T: Scalar> Kernel<LogicalNot<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, LogicalNot<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        let (x, mut y) = (Raw::of(&a.x), RawMut::of(&mut a.y));
        for (p, q) in x.layout.positions().zip(y.layout.positions()) {
            y.element(q)[0] = (x.wide(p).to_f64() == 0.0).into();
        }
        Ok(())
    }
}
impl<T: Scalar> Kernel<Compare<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Compare<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        compare(op.function(), Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.y));
        Ok(())
    }
}
