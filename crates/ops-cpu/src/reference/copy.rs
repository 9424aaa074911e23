//! Copies, fills and numbers in steps.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Arange, Fill, TensorCopy};
use ops_core::{Call, Element, Num, Result};

fn copy(x: Raw<'_>, mut y: RawMut<'_>) {
    for (p, q) in x.layout.positions().zip(y.layout.positions()) {
        y.element(q).copy_from_slice(x.element(p));
    }
}

fn fill(mut y: RawMut<'_>, value: &[u8]) {
    for p in y.layout.positions() {
        y.element(p).copy_from_slice(value);
    }
}

impl Kernel<TensorCopy> for Reference {
    fn compute(&self, call: Call<'_, '_, TensorCopy, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        copy(Raw::any(&a.x), RawMut::any(&mut a.y));
        Ok(())
    }
}
impl<T: Num> Kernel<Arange<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Arange<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let mut y = RawMut::of(&mut a.y);
        for (i, p) in (0..).zip(y.layout.positions()) {
            y.set_wide(p, op.at(i).to_wide());
        }
        Ok(())
    }
}
impl<T: Element> Kernel<Fill<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Fill<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        fill(RawMut::of(&mut a.y), bytemuck::bytes_of(&op.value));
        Ok(())
    }
}
