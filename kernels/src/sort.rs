//! sort, argsort and topk along the last dimension.
use crate::instances::{Arguments, Table};
use crate::launch::need;
use crate::{
    Device, Divider, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, rows,
};

/// Threads per block; `SORT_BLOCK` in the source.
const BLOCK: u32 = 256;
/// Elements that a block sorts; `SORT_TILE` in the source.
const TILE: u64 = 1024;

/// Arguments of every sort kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct SortArgs {
    pub shape: Shape,
    pub x: StridedPointer,
    pub values: StridedPointer,
    pub indices: StridedPointer,
    /// Device addresses of halves of the workspace; see [`Plan::launch`].
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

impl Arguments for SortArgs {
    const NAME: &'static str = "SortArgs";
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
    pub keep: u64,
    pub descending: bool,
}

/// The launches of a sort: tiles, followed by merges that each double the length.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    first: Launch,
    merge: Launch,
    args: SortArgs,
    results: u32,
    /// Number of launches.
    pub launches: u32,
    /// Bytes of each of the two halves of device memory, aligned to 16 bytes; 0 for one launch.
    pub half: u64,
}

impl Plan {
    /// The launch with this number, below [`launches`](Self::launches), and its arguments. `workspace` is the
    /// address of both halves.
    pub fn launch(&self, at: u32, workspace: u64) -> (Launch, SortArgs) {
        let halves = [workspace, workspace.wrapping_add(self.half)];
        let (from, to) = (halves[(at as usize + 1) % 2], halves[at as usize % 2]);
        let results = if at + 1 == self.launches { self.results } else { 0 };
        let args = SortArgs { from, to, results, ..self.args };
        let n = args.shape.inner();
        match at.checked_sub(1) {
            None => (self.first, args),
            Some(merged) => {
                let run = TILE << merged;
                let kept = run.min(args.keep).max(1);
                let runs = Divider::new(n.div_ceil(run).max(1));
                (self.merge, SortArgs { run, runs, kept: Divider::new(kept), ..args })
            }
        }
    }
}

/// Prepares a sort of the rows of `dims`.
pub fn prepare(dims: &[u64], sort: &Sort<'_>, device: &Device) -> Result<Plan, Refused> {
    let t = sort.x.dtype;
    let views = [sort.x, sort.values.unwrap_or(sort.x), sort.indices.unwrap_or(sort.x)];
    let (shape, [x, values, indices]) = rows(dims, 1, views)?;
    let n = shape.inner();
    let max = 1 << 32;
    if n > max {
        return Err(Refused::Limit { what: "the length of a row", got: n, max });
    }
    let nothing = n == 0 || sort.keep == 0;
    let count = if nothing { 0 } else { shape.count() / n };
    let run = n.max(2).next_power_of_two().min(TILE);
    let tiles = n.div_ceil(run).max(1);
    let args = SortArgs {
        shape,
        x,
        values,
        indices,
        from: 0,
        to: 0,
        runs: Divider::new(tiles),
        kept: Divider::new(1),
        rows: count,
        run,
        keep: sort.keep,
        flip: sort.descending.into(),
        results: 0,
    };
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
    Ok(Plan { first, merge, args, results, launches: 1 + merges, half })
}
