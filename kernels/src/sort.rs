//! sort, argsort and topk along the last dimension.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{
    Device, Divider, ElementType, Family, Launch, OperandView, Plan, Refused, Shape, StridedPointer, rows,
};
use std::mem::offset_of;

/// Threads per block; `SORT_BLOCK` in the source.
const BLOCK: u32 = 256;
/// Elements that a block sorts; `SORT_TILE` in the source.
const TILE: u64 = 1024;

arguments! {
    /// Arguments of every sort kernel.
    pub struct SortArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub values: StridedPointer,
        pub indices: StridedPointer,
        /// Device addresses of halves of the workspace: launches read one and write the other, in turns.
        pub from: u64,
        pub to: u64,
        pub runs: Divider,
        pub kept: Divider,
        pub rows: u64,
        pub run: u64,
        pub keep: u64,
        pub flip: u32,
        pub results: u32,
    }
}

/// `Results` in the source.
const VALUES: u32 = 1;
const INDICES: u32 = 2;

/// Bytes of a key and an index.
const fn entry_bytes(t: ElementType) -> u32 {
    if t.bytes() == 8 { 16 } else { 8 }
}

pub(crate) fn declare(table: &mut Table) {
    let mut sort = table.of::<SortArgs>(Family::Sort, BLOCK);
    for t in ElementType::FLOATS.into_iter().chain(ElementType::INTS) {
        sort.add_variant("sort", "tiles", &[t], "sort_tiles", &[], TILE as u32 * entry_bytes(t));
    }
    for t in ElementType::BITS {
        let key = if t.bytes() == 8 { "u64" } else { "u32" };
        sort.part("merge").add_variant("sort", "merge", &[t], "merge_runs", &[key], 0);
    }
}

/// A sort of rows: the input, and the values and indices to write, in the first `keep` positions.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Sort<'a> {
    pub x: OperandView<'a>,
    pub values: Option<OperandView<'a>>,
    pub indices: Option<OperandView<'a>>,
    /// Whether the indices are written to the workspace, after its two halves.
    pub keeps_indices: bool,
    pub keep: u64,
    pub descending: bool,
}

/// Prepares a sort of the rows of `dims`: of tiles, followed by merges that each double the length.
pub fn prepare(dims: &[u64], sort: &Sort<'_>, device: &Device, plan: &mut Plan) -> Result<(), Refused> {
    let t = sort.x.dtype;
    let views = [sort.x, sort.values.unwrap_or(sort.x), sort.indices.unwrap_or(sort.x)];
    let (shape, [x, values, mut indices]) = rows(dims, 1, views)?;
    let n = shape.inner();
    let max = 1 << 32;
    if n > max {
        return Err(Refused::Limit { what: "the length of a row", got: n, max });
    }
    let nothing = n == 0 || sort.keep == 0;
    let count = if nothing { 0 } else { shape.count() / n };
    let run = n.max(2).next_power_of_two().min(TILE);
    let tiles = n.div_ceil(run).max(1);
    let results =
        if sort.values.is_some() { VALUES } else { 0 } | if sort.indices.is_some() { INDICES } else { 0 };
    let tiles_of_all = count.checked_mul(tiles).ok_or(Refused::Size)?;
    let first = Launch::over(need("sort", "tiles", &[t])?, tiles_of_all, TILE / run, device.row_blocks());
    let merges = tiles.next_power_of_two().trailing_zeros();
    let bits = t.bits().ok_or(Refused::NoKernel { op: "sort".into(), types: vec![t] })?;
    let most = device.blocks(device.tuning.element_blocks());
    let merge = Launch::over(need("sort", "merge", &[bits])?, shape.count(), BLOCK.into(), most);
    let bytes = shape.count().checked_mul(entry_bytes(t).into()).filter(|bytes| *bytes < 1 << 62);
    let half = if merges == 0 { 0 } else { bytes.ok_or(Refused::Size)?.next_multiple_of(16) };
    plan.workspace = 2 * half;
    if sort.keeps_indices {
        indices.data = plan.workspace;
    }
    let offsets = [offset_of!(SortArgs, indices.data), offset_of!(SortArgs, from), offset_of!(SortArgs, to)];
    let offsets = &offsets[usize::from(!sort.keeps_indices)..if merges == 0 { 1 } else { 3 }];
    let args = SortArgs {
        shape,
        x,
        values,
        indices,
        from: half,
        to: 0,
        runs: Divider::new(tiles),
        kept: Divider::new(1),
        rows: count,
        run,
        keep: sort.keep,
        flip: sort.descending.into(),
        results: if merges == 0 { results } else { 0 },
    };
    plan.add_with(first, &args, offsets)?;
    for merged in 0..merges {
        let (from, to) = if merged % 2 == 0 { (0, half) } else { (half, 0) };
        let run = TILE << merged;
        let runs = Divider::new(n.div_ceil(run).max(1));
        let kept = Divider::new(run.min(sort.keep).max(1));
        let results = if merged + 1 == merges { results } else { 0 };
        plan.add_with(merge, &SortArgs { from, to, run, runs, kept, results, ..args }, offsets)?;
    }
    Ok(())
}
