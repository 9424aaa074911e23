//! Ops that read and write elements by index.
use super::Reference;
use crate::host::raw::{Raw, RawMut, resolve};
use crate::{Host, Kernel};
use ops_core::ops::{Gather, IndexAdd, Scatter, ScatterAdd};
use ops_core::{Call, Num, Result, Wide};
use std::collections::BTreeMap;

fn gather(x: Raw<'_>, ids: Raw<'_>, mut y: RawMut<'_>, axis: isize) -> Result<()> {
    let axis = x.layout.shape().axis(axis)?;
    for (i, row) in resolve("gather", ids, x.dims()[axis])?.into_iter().enumerate() {
        let mut at = ids.layout.index_of(i);
        let to = y.layout.position(&at);
        match row {
            Some(row) => {
                at[axis] = row;
                y.element(to).copy_from_slice(x.element(x.layout.position(&at)));
            }
            None => y.element(to).fill(0),
        }
    }
    Ok(())
}

fn scatter(mut dst: RawMut<'_>, ids: Raw<'_>, src: Raw<'_>, axis: isize) -> Result<()> {
    let axis = dst.layout.shape().axis(axis)?;
    for (i, row) in resolve("scatter", ids, dst.layout.dims()[axis])?.into_iter().enumerate() {
        let mut at = ids.layout.index_of(i);
        let from = src.layout.position(&at);
        if let Some(row) = row {
            at[axis] = row;
            dst.element(dst.layout.position(&at)).copy_from_slice(src.element(from));
        }
    }
    Ok(())
}

/// Adds each element of `src` to the element of `dst` at `place`; each sum is rounded once.
fn add(mut dst: RawMut<'_>, src: Raw<'_>, axis: usize, place: impl Fn(usize, &[usize]) -> Option<usize>) {
    let mut sums = BTreeMap::new();
    for i in 0..src.layout.len() {
        let mut at = src.layout.index_of(i);
        let from = src.layout.position(&at);
        let Some(row) = place(i, &at) else { continue };
        at[axis] = row;
        let to = dst.layout.position(&at);
        let sum = sums.entry(to).or_insert_with(|| dst.as_raw().wide(to));
        *sum = match (*sum, src.wide(from)) {
            (Wide::Int(a), Wide::Int(b)) => Wide::Int(a.wrapping_add(b)),
            (a, b) => Wide::Float(a.to_f64() + b.to_f64()),
        };
    }
    sums.into_iter().for_each(|(to, sum)| dst.set_wide(to, sum));
}

impl Kernel<Gather> for Reference {
    fn compute(&self, call: Call<'_, '_, Gather, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        gather(Raw::any(&a.x), Raw::any(&a.ids), RawMut::any(&mut a.y), op.axis)
    }
}
impl Kernel<Scatter> for Reference {
    fn compute(&self, call: Call<'_, '_, Scatter, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        scatter(RawMut::any(&mut a.dst), Raw::any(&a.ids), Raw::any(&a.src), op.axis)
    }
}
impl<T: Num> Kernel<ScatterAdd<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, ScatterAdd<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let dst = RawMut::of(&mut a.dst);
        let axis = dst.layout.shape().axis(op.axis)?;
        let rows = resolve("scatter_add", Raw::any(&a.ids), dst.layout.dims()[axis])?;
        add(dst, Raw::of(&a.src), axis, |i, _| rows[i]);
        Ok(())
    }
}
impl<T: Num> Kernel<IndexAdd<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, IndexAdd<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let dst = RawMut::of(&mut a.dst);
        let axis = dst.layout.shape().axis(op.axis)?;
        let rows = resolve("index_add", Raw::any(&a.ids), dst.layout.dims()[axis])?;
        add(dst, Raw::of(&a.src), axis, |_, at| rows[at[axis]]);
        Ok(())
    }
}
