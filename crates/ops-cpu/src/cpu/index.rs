//! Picking by index.
use super::Cpu;
use super::rows::{Rows, each_under};
use crate::reference::resolve;
use crate::{Host, Kernel};
use ops_core::ops::{IndexSelect, IndexSelectArgs};
use ops_core::{Element, Index, Result, View};

impl<T: Element, I: Index> Kernel<IndexSelect<T, I>> for Cpu {
    fn compute(&self, op: &IndexSelect<T, I>, a: &mut IndexSelectArgs<'_, Host, T, I>) -> Result<()> {
        let axis = a.x.shape().axis(op.axis)?;
        let picked = resolve("index_select", &a.ids, a.x.dims()[axis])?;
        // The last axis of `y` is copied row by row; picking along that axis itself, element by element.
        let inner = axis + 1 < a.x.dims().len();
        let (lx, ly) = if inner {
            (*a.x.layout(), *a.y.layout())
        } else {
            (a.x.layout().unsqueeze(-1)?, a.y.layout().unsqueeze(-1)?)
        };
        let x = Rows::with(&a.x, lx);
        let (rows_x, rows_y) = (lx.dims()[axis], ly.dims()[axis]);
        let below: usize = ly.dims()[axis + 1..ly.rank() - 1].iter().product();
        each_under(&mut a.y, ly, ly.last(), Vec::new, |scratch, i, y| {
            let (outer, along, rest) = (i / below / rows_y, i / below % rows_y, i % below);
            match picked[along] {
                Some(row) => y.copy_from_slice(x.get((outer * rows_x + row) * below + rest, scratch)),
                None => y.fill(T::zeroed()),
            }
        });
        Ok(())
    }
}
