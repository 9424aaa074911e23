//! Ops that select rows or elements by index.
use super::Reference;
use super::quant::values;
use crate::host::raw::{Raw, RawMut, resolve};
use crate::{Host, Kernel};
use ops_core::ops::{Embedding, IndexSelect};
use ops_core::{Call, DType, Float, Op, Result};

fn index_select(x: Raw<'_>, ids: Raw<'_>, mut y: RawMut<'_>, axis: isize) -> Result<()> {
    let axis = x.layout.shape().axis(axis)? as isize;
    for (i, row) in resolve("index_select", ids, x.dims()[axis as usize])?.into_iter().enumerate() {
        let to = y.layout.narrow(axis, i, 1)?.positions();
        match row {
            Some(row) => {
                let from = x.layout.narrow(axis, row, 1)?.positions();
                to.zip(from).for_each(|(q, p)| y.element(q).copy_from_slice(x.element(p)));
            }
            None => to.for_each(|q| y.element(q).fill(0)),
        }
    }
    Ok(())
}

fn embedding(table: Raw<'_>, ids: Raw<'_>, mut y: RawMut<'_>, name: &'static str) -> Result<()> {
    for (i, row) in resolve(name, ids, table.dims()[0])?.into_iter().enumerate() {
        let row = match (row, table.dtype) {
            (Some(row), DType::Block(format)) => values(format, table, &table.layout.narrow(0, row, 1)?),
            (Some(row), _) => table.gather(table.layout.narrow(0, row, 1)?.positions()),
            (None, _) => vec![0.0; y.layout.last()],
        };
        y.scatter(y.layout.narrow(0, i, 1)?.positions(), row);
    }
    Ok(())
}

impl<T: Float> Kernel<Embedding<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Embedding<T>, Host>) -> Result<()> {
        let name = call.op().name();
        let (_, a) = call.into_parts();
        embedding(Raw::any(&a.table), Raw::any(&a.ids), RawMut::of(&mut a.y), name)
    }
}
impl Kernel<IndexSelect> for Reference {
    fn compute(&self, call: Call<'_, '_, IndexSelect, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        index_select(Raw::any(&a.x), Raw::any(&a.ids), RawMut::any(&mut a.y), op.axis)
    }
}
