//! Rows of rope's tables, selected by positions.
use super::rows::scratch;
use crate::HostBuffer;
use crate::host::raw::{Raw, table_rows};
use ops_core::{DType, Layout, Result};

/// The rows of two tables that tokens use, in token order.
pub(super) struct Picked {
    /// Both tables, one after the other.
    memory: HostBuffer<i64>,
    /// Words of the first.
    words: usize,
    layout: Layout,
    dtypes: [DType; 2],
}

impl Picked {
    /// Rows for the tokens `[b, t]`; one row per position if all batch entries use the same.
    pub(super) fn new(
        op: &'static str,
        tables: [Raw<'_>; 2],
        positions: Raw<'_>,
        [b, t]: [usize; 2],
    ) -> Result<Self> {
        let rank = tables[0].layout.rank();
        let (bound, half) = (tables[0].dims()[rank - 2], tables[0].layout.last());
        let rows = table_rows(op, Some(positions), 0, [b, t], bound)?;
        let shared = rank == 2 && positions.dims()[0] == 1;
        let dims = [b, t, half];
        let layout = Layout::contiguous(if shared { &dims[1..] } else { &dims })?;
        // Words, so that elements of every type are aligned.
        let words = tables.map(|table| (layout.len() * table.size).div_ceil(size_of::<i64>()));
        let mut memory = scratch::<i64>(words[0] + words[1])?;
        let (first, second) = memory.as_mut_slice().split_at_mut(words[0]);
        for (table, to) in tables.iter().zip([first, second]) {
            let to = bytemuck::cast_slice_mut::<i64, u8>(to);
            let lines = to.chunks_exact_mut((half * table.size).max(1));
            for (i, (line, row)) in lines.zip(&rows).enumerate().take(layout.len() / half.max(1)) {
                let index = [i / t, *row, 0];
                let first = table.layout.position(&index[3 - rank..]);
                let step = table.layout.last_stride();
                for (j, to) in line.chunks_exact_mut(table.size).enumerate() {
                    to.copy_from_slice(table.element(first.wrapping_add_signed(step * j as isize)));
                }
            }
        }
        Ok(Picked { memory, words: words[0], layout, dtypes: tables.map(|table| table.dtype) })
    }

    /// The tables, with one row per token.
    pub(super) fn tables(&self) -> [Raw<'_>; 2] {
        let (first, second) = self.memory.as_slice().split_at(self.words);
        let raw = |i: usize, words| Raw {
            bytes: bytemuck::cast_slice::<i64, u8>(words),
            size: self.dtypes[i].size(),
            dtype: self.dtypes[i],
            layout: self.layout,
        };
        [raw(0, first), raw(1, second)]
    }
}
