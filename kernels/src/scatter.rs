//! gather, scatter, scatter_add and index_add. See [`crate::index`] for index types and the record of index faults.
use crate::index::{Report, kind_of};
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::shape::{List, MAX_RANK, as_units, leading, list, outer_multiples};
use crate::sort;
use crate::{
    Device, ElementType, Family, Launch, OperandView, Plan, Refused, Shape, StridedPointer, elementwise,
};
use std::mem::offset_of;

const BLOCK: u32 = 256;
/// With at least this many lines per compute unit, each line gets one thread.
const LINES: u32 = 64;
/// Lines of at most this many indices get one thread too.
const SHORT_LINE: u64 = 16;
/// A thread adds at most this many f32 in sequence, so that rounding errors stay far below the op's
/// tolerance.
const MAX_RUNNING: u64 = 1024;

arguments! {
    /// Arguments of gather.
    pub struct GatherArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub ids: StridedPointer,
        /// Strides that give the position of an index in its operand.
        pub order: StridedPointer,
        /// Stride of x along the indexed dimension, where `x` has stride 0.
        pub step: i64,
        pub bound: u64,
        /// Number of tiles per block.
        pub turns: u64,
        pub error: u64,
        pub ids_kind: u32,
        pub op: u32,
        pub operand: u32,
        pub ids_packs: u32,
    }

    /// Arguments of scatter, scatter_add and index_add.
    pub struct ScatterArgs {
        pub shape: Shape,
        pub dst: StridedPointer,
        pub src: StridedPointer,
        pub ids: StridedPointer,
        /// Strides that give the position of an index in its operand.
        pub order: StridedPointer,
        /// Device address of the numbers that sort the indices of each line, as u32.
        pub sorted: u64,
        pub sorted_line: u64,
        pub lines: u64,
        /// Number of indices per line.
        pub count: u64,
        pub bound: u64,
        pub error: u64,
        pub ids_kind: u32,
        pub op: u32,
        pub operand: u32,
        pub reserved: u32,
    }
}

pub(crate) fn declare(table: &mut Table) {
    for t in ElementType::BITS {
        table.of::<GatherArgs>(Family::Scatter, BLOCK).add("gather", &[t], "gather", &[]);
        let mut scatter = table.of::<ScatterArgs>(Family::Scatter, BLOCK);
        scatter.add_variant("scatter", "walk", &[t], "scatter_walk", &[], 0);
        scatter.add_variant("scatter", "sorted", &[t], "scatter_sorted", &[], 0);
    }
    for t in ElementType::FLOATS.into_iter().chain(ElementType::INTS) {
        let mut add = table.of::<ScatterArgs>(Family::Scatter, BLOCK);
        if t.bytes() != 2 || !ElementType::FLOATS.contains(&t) {
            add.add_variant("scatter_add", "walk", &[t], "scatter_add_walk", &[], 0);
        }
        add.add_variant("scatter_add", "sorted", &[t], "scatter_add_sorted", &[], 0);
    }
}

/// Strides of a tensor of these dimensions in row-major order; 0 where `ids` does not vary.
fn order_of(dims: &[u64], varies: impl Fn(usize) -> bool) -> Result<List<i64>, Refused> {
    let mut strides: List<i64> = list(dims)?.iter().map(|_| 0).collect();
    let mut step = 1i64;
    for at in (0..dims.len()).rev().filter(|at| varies(*at)) {
        strides[at] = step;
        step = i64::try_from(dims[at]).ok().and_then(|d| step.checked_mul(d)).ok_or(Refused::Size)?;
    }
    Ok(strides)
}

/// A view without memory.
fn of_order(strides: &[i64]) -> OperandView<'_> {
    OperandView { data: 0, strides, dtype: ElementType::U8 }
}

/// Two operands that are moved, the indices and their order, with the indexed dimension outermost; and the unit that is moved.
fn arrange(
    dims: &[u64],
    axis: usize,
    moved: [OperandView<'_>; 2],
    ids: OperandView<'_>,
    order: &[i64],
) -> Result<(ElementType, Shape, [StridedPointer; 4]), Refused> {
    let (unit, dims, strides) = units(dims, axis, moved, ids, order)?;
    let (shape, operands) = leading(&dims, axis, views(unit, moved, ids, &strides))?;
    Ok((unit, shape.unpacked(), operands))
}

/// Strides of the two moved operands, of the indices and of their order.
type Strides = [List<i64>; 4];

/// The unit of moves, and dimensions and strides in that unit.
fn units(
    dims: &[u64],
    axis: usize,
    moved: [OperandView<'_>; 2],
    ids: OperandView<'_>,
    order: &[i64],
) -> Result<(ElementType, List<u64>, Strides), Refused> {
    if axis >= dims.len() || ids.strides.len() != dims.len() {
        return Err(Refused::Rank(dims.len()));
    }
    let (unit, dims, [a, b]) = as_units(dims, moved)?;
    let (mut ids_strides, mut order) = (list(ids.strides)?, list(order)?);
    while ids_strides.len() < dims.len() {
        // All units of a block share one index.
        ids_strides.push(0);
        order.push(0);
    }
    Ok((unit, dims, [a, b, ids_strides, order]))
}

fn views<'s>(
    unit: ElementType,
    [a, b]: [OperandView<'_>; 2],
    ids: OperandView<'_>,
    [of_a, of_b, of_ids, order]: &'s Strides,
) -> [OperandView<'s>; 4] {
    [
        OperandView { data: a.data, strides: of_a, dtype: unit },
        OperandView { data: b.data, strides: of_b, dtype: unit },
        OperandView { data: ids.data, strides: of_ids, dtype: ids.dtype },
        of_order(order),
    ]
}

/// Number of neighbours that a thread processes; `gather_pack` in the source.
fn gather_pack(unit: ElementType) -> u32 {
    if unit.bytes() == 8 { 2 } else { 4 }
}

/// Prepares `y[i, j, ..] = x[ids[i, j, ..], j, ..]`, for axis 0. `dims` are those of y and ids; `bound` is the size of x along
/// the axis. Any type works, including block types.
pub fn gather(
    dims: &[u64],
    axis: usize,
    bound: u64,
    [x, ids, y]: [OperandView<'_>; 3],
    report: Report,
    device: &Device,
) -> Result<(Launch, GatherArgs), Refused> {
    let order = order_of(dims, |_| true)?;
    let (unit, dims, mut strides) = units(dims, axis, [x, y], ids, &order)?;
    // Elements are visited in y's order, so that neighbouring threads write neighbours along any axis.
    let step = std::mem::take(&mut strides[0][axis]);
    let (shape, [x, y, ids_at, order]) = elementwise(&dims, views(unit, [x, y], ids, &strides))?;
    let pack = gather_pack(unit);
    let in_packs = |of: &StridedPointer, bytes: usize| {
        of.stride[MAX_RANK - 1] == 1
            && shape.inner().is_multiple_of(pack.into())
            && of.data.is_multiple_of((u64::from(pack) * bytes as u64).min(16))
            && outer_multiples(&shape, of, pack, false)
    };
    let packs = in_packs(&y, unit.bytes());
    let ids_packs = packs && in_packs(&ids_at, ids.dtype.bytes());
    let shape = shape.with_pack(if packs { pack } else { 1 });
    let launch = Launch::elementwise(need("gather", "", &[unit])?, &shape, device);
    let tiles = shape.count().div_ceil(u64::from(shape.pack())).div_ceil(BLOCK.into());
    let args = GatherArgs {
        shape,
        x,
        y,
        ids: ids_at,
        order,
        step,
        bound,
        turns: tiles.div_ceil(u64::from(launch.grid[0]).max(1)),
        error: report.error,
        ids_kind: kind_of(ids.dtype)?,
        op: report.op,
        operand: report.operand,
        ids_packs: ids_packs.into(),
    };
    Ok((launch, args))
}

/// Prepares the sort of each line's indices. Its results are numbers of the sources, with those of a line
/// adjacent.
fn sorting(
    dims: &[u64],
    axis: usize,
    ids: OperandView<'_>,
    are_shared: bool,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let (mut dims, mut of_ids) = (list(dims)?, list(ids.strides)?);
    if are_shared {
        (dims, of_ids) = (list(&[dims[axis]])?, list(&[of_ids[axis]])?);
    }
    let axis = if are_shared { 0 } else { axis };
    let (mut of_numbers, mut step) = (of_ids.clone(), dims[axis] as i64);
    for at in (0..dims.len()).rev().filter(|at| *at != axis) {
        of_numbers[at] = step;
        step = step.checked_mul(dims[at] as i64).ok_or(Refused::Size)?;
    }
    of_numbers[axis] = 1;
    let last = dims.len() - 1;
    dims.swap(axis, last);
    of_ids.swap(axis, last);
    of_numbers.swap(axis, last);
    let numbers = OperandView { data: 0, strides: &of_numbers, dtype: ElementType::U32 };
    let sort = sort::Sort {
        x: OperandView { strides: &of_ids, ..ids },
        values: None,
        indices: Some(numbers),
        keeps_indices: true,
        keep: dims[last],
        descending: false,
    };
    sort::prepare(&dims, &sort, device, plan)
}

/// Prepares `dst[ids[i, j, ..], j, ..] = src[i, j, ..]`, for axis 0, or the same with a sum for
/// `scatter_add`. `dims` are those of src; `bound` is the size of dst along the axis. `ids` has the shape of
/// src; if `ids_are_shared`, it varies only along the axis, as in `index_add`. The indices may have to be sorted first.
pub fn scatter(
    (op, ids_are_shared): (&str, bool),
    dims: &[u64],
    (axis, bound): (usize, u64),
    [dst, ids, src]: [OperandView<'_>; 3],
    report: Report,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let order = order_of(dims, |at| at == axis || !ids_are_shared)?;
    let dtype = dst.dtype;
    let adds = op != "scatter";
    let (unit, shape, [dst, src, ids_at, order]) = if adds {
        let views = [dst, src, ids, of_order(&order)];
        let (shape, operands) = leading(dims, axis, views)?;
        (dtype, shape.unpacked(), operands)
    } else {
        arrange(dims, axis, [dst, src], ids, &order)?
    };
    let count = *dims.get(axis).ok_or(Refused::Rank(dims.len()))?;
    let lines = shape.count().checked_div(count).unwrap_or(0);
    // Blocks are units of lines, of which there are several for each line of indices.
    let walks = dtype.bits().is_none() || !must_sort(adds.then_some(dtype), count, lines, device);
    if !walks {
        sorting(dims, axis, ids, ids_are_shared, device, plan)?;
    }
    let args = ScatterArgs {
        shape,
        dst,
        src,
        ids: ids_at,
        order,
        sorted: plan.workspace,
        sorted_line: if ids_are_shared { 0 } else { count },
        lines,
        count,
        bound,
        error: report.error,
        ids_kind: kind_of(ids.dtype)?,
        op: report.op,
        operand: report.operand,
        reserved: 0,
    };
    let instance = need(op, if walks { "walk" } else { "sorted" }, &[unit])?;
    let launch = Launch::over(
        instance,
        if walks { lines } else { shape.count() },
        BLOCK.into(),
        device.blocks(device.tuning.element_blocks()),
    );
    let numbers = if ids_are_shared { count } else { shape.count() }.checked_mul(4).ok_or(Refused::Size)?;
    if walks {
        return plan.add((launch, args));
    }
    plan.workspace = plan.workspace.checked_add(numbers).ok_or(Refused::Size)?;
    plan.add_with(launch, &args, &[offset_of!(ScatterArgs, sorted)])
}

/// Whether the indices must be sorted, for sums in this type or, with `None`, to find the last of several
/// values.
fn must_sort(sums: Option<ElementType>, count: u64, lines: u64, device: &Device) -> bool {
    let many = lines >= device.blocks(LINES) || count <= SHORT_LINE;
    match sums {
        // Sums are rounded once, so they must not be kept in dst.
        Some(ElementType::F16 | ElementType::Bf16) => true,
        Some(ElementType::F32) => !many || count > MAX_RUNNING,
        _ => !many,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{device, view};

    /// Number of launches of a scatter of `count` indices in each of `lines` lines.
    fn launches(op: &str, dtype: ElementType, count: u64, lines: u64) -> usize {
        let strides = [lines as i64, 1];
        let [dst, ids] = [dtype, ElementType::U32].map(|dtype| view(&strides, dtype));
        let report = Report { error: 0, op: 0, operand: 0 };
        let mut plan = Plan::default();
        scatter((op, false), &[count, lines], (0, count), [dst, ids, dst], report, &device(), &mut plan)
            .expect("a kernel");
        plan.steps().len()
    }

    #[test]
    fn few_long_lines_are_sorted() {
        let (many, long) = (device().blocks(LINES), SHORT_LINE + 1);
        for op in ["scatter", "scatter_add"] {
            assert_eq!(launches(op, ElementType::F32, long, many), 1, "{op}");
            assert!(launches(op, ElementType::F32, long, many - 1) > 1, "{op}");
            assert_eq!(launches(op, ElementType::F32, SHORT_LINE, 1), 1, "{op}");
        }
        assert!(launches("scatter_add", ElementType::F32, MAX_RUNNING + 1, many) > 1);
        assert_eq!(launches("scatter_add", ElementType::F32, MAX_RUNNING, many), 1);
        assert!(launches("scatter_add", ElementType::F16, SHORT_LINE, many) > 1);
        assert_eq!(launches("scatter", ElementType::F16, MAX_RUNNING + 1, many), 1);
    }
}
