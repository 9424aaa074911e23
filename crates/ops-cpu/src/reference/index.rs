//! Picking by index.
use super::Reference;
use crate::{Host, Kernel};
use ops_core::ops::{IndexSelect, IndexSelectArgs};
use ops_core::{Element, Error, Index, Result, TensorRef, View};

/// The rows that `ids` names, `None` for "no element": all checked before anything is written.
pub(crate) fn resolve<I: Index>(
    op: &'static str,
    ids: &TensorRef<'_, Host, I>,
    bound: usize,
) -> Result<Vec<Option<usize>>> {
    let data = ids.data();
    let row = |(position, p): (usize, usize)| {
        data[p].resolve(bound).map_err(|index| Error::Index { op, operand: "ids", position, index, bound })
    };
    ids.layout().positions().enumerate().map(row).collect()
}

impl<T: Element, I: Index> Kernel<IndexSelect<T, I>> for Reference {
    fn compute(&self, op: &IndexSelect<T, I>, a: &mut IndexSelectArgs<'_, Host, T, I>) -> Result<()> {
        let (lx, ly) = (*a.x.layout(), *a.y.layout());
        let axis = lx.shape().axis(op.axis)? as isize;
        let rows = resolve("index_select", &a.ids, lx.dims()[axis as usize])?;
        let (x, y) = (a.x.data(), a.y.data_mut());
        for (i, row) in rows.into_iter().enumerate() {
            let to = ly.narrow(axis, i, 1)?.positions();
            match row {
                Some(row) => to.zip(lx.narrow(axis, row, 1)?.positions()).for_each(|(q, p)| y[q] = x[p]),
                None => to.for_each(|q| y[q] = T::zeroed()),
            }
        }
        Ok(())
    }
}
