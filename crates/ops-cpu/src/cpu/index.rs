//! Ops that select rows or elements by index.
use super::Cpu;
use super::quant::embedding;
use super::rows::{for_each_row, row};
use crate::host::raw::{Raw, RawMut, resolve};
use crate::{Host, Kernel};
use ops_core::ops::{Embedding, IndexSelect};
use ops_core::{Call, Float, Op, Result};

pub(super) fn index_select(x: Raw<'_>, ids: Raw<'_>, y: RawMut<'_>, axis: isize) -> Result<()> {
    let axis = x.layout.shape().axis(axis)?;
    let picked = resolve("index_select", ids, x.dims()[axis])?;
    if axis + 1 == x.layout.rank() {
        return pick_elements(x, &picked, y);
    }
    let (rows_x, ly) = (x.dims()[axis], y.layout);
    let (rows_y, below) = (ly.dims()[axis], ly.dims()[axis + 1..ly.rank() - 1].iter().product::<usize>());
    for_each_row("index_select", y, ly.last(), &|[scratch, ..], i, y| {
        let (outer, along, rest) = (i / below / rows_y, i / below % rows_y, i % below);
        match picked[along] {
            Some(picked) => y.copy_from_slice(row(&x, (outer * rows_x + picked) * below + rest, scratch)),
            None => y.fill(0),
        }
        Ok(())
    })
}

/// Selects along the last axis, element by element.
fn pick_elements(x: Raw<'_>, picked: &[Option<usize>], y: RawMut<'_>) -> Result<()> {
    let size = x.size;
    for_each_row("index_select", y, picked.len(), &|[scratch, ..], i, y| {
        let from = row(&x, i, scratch);
        for (to, picked) in y.chunks_exact_mut(size).zip(picked) {
            match picked {
                Some(p) => to.copy_from_slice(&from[p * size..][..size]),
                None => to.fill(0),
            }
        }
        Ok(())
    })
}

impl<T: Float> Kernel<Embedding<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Embedding<T>, Host>) -> Result<()> {
        let name = call.op().name();
        let (_, a) = call.into_parts();
        embedding(Raw::any(&a.table), Raw::any(&a.ids), RawMut::of(&mut a.y), name)
    }
}
impl Kernel<IndexSelect> for Cpu {
    fn compute(&self, call: Call<'_, '_, IndexSelect, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        index_select(Raw::any(&a.x), Raw::any(&a.ids), RawMut::any(&mut a.y), op.axis)
    }
}
