//! Choices between two tensors, element by element.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::Where;
use ops_core::{Call, Result, Wide};

fn choose(cond: Raw<'_>, on_true: Raw<'_>, on_false: Raw<'_>, mut y: RawMut<'_>) {
    let choices = on_true.layout.positions().zip(on_false.layout.positions());
    for ((c, (t, f)), q) in cond.layout.positions().zip(choices).zip(y.layout.positions()) {
        let chosen = if cond.wide(c) != Wide::Int(0) { on_true.element(t) } else { on_false.element(f) };
        y.element(q).copy_from_slice(chosen);
    }
}

impl Kernel<Where> for Reference {
    fn compute(&self, call: Call<'_, '_, Where, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        choose(Raw::any(&a.cond), Raw::any(&a.on_true), Raw::any(&a.on_false), RawMut::any(&mut a.y));
        Ok(())
    }
}
