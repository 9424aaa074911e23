//! sum, mean, max, min, prod, argmax and argmin over any dimensions.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::norm::lanes_for;
use crate::shape::outer_multiples;
use crate::{
    Device, Divider, ElementType, Family, Launch, OperandView, Plan, Refused, Shape, StridedPointer,
    elementwise,
};
use std::mem::offset_of;

/// Threads per block; `REDUCE_BLOCK` in the source.
const BLOCK: u32 = 256;
/// Number of columns per block in which a thread begins; `TILE_COLUMNS` in the source.
const TILE_COLUMNS: u64 = 32;
/// Number of threads that share a column; `SLICES` in the source.
const SLICES: u64 = BLOCK as u64 / TILE_COLUMNS;
/// With at least this many outputs adjacent in memory, a thread processes several of them.
const MIN_COLUMNS: u64 = 16;
/// Minimum number of loads per thread of a part.
const MIN_LOADS: u64 = 8;
const MAX_PARTS: u64 = 1024;
/// Number of parts of a long row, if it must not depend on the number of rows.
const PARTS_BY_ROW: u64 = 16;

arguments! {
    /// Arguments of every reduction.
    pub struct ReduceArgs {
        pub kept: Shape,
        pub reduced: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub along: StridedPointer,
        /// Device address of the workspace, aligned to 8 bytes. Unused with one part.
        pub partial: u64,
        pub parts: Divider,
        pub tiles: Divider,
        pub items: u64,
        pub part: u64,
        pub lanes: u64,
        pub divisor: f64,
        pub flip: u32,
        pub pass: u32,
    }
}

/// `Pass` in the source.
const WHOLE_OUTPUTS: u32 = 0;
const WRITE_PARTS: u32 = 1;
const READ_PARTS: u32 = 2;

/// A reduction as the kernels distinguish them. Means are sums with a divisor, and minima are maxima of flipped keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sum,
    Product,
    Largest,
    Index,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Sum, Kind::Product, Kind::Largest, Kind::Index];

    /// The kind of an op, and whether it selects the smallest element.
    fn of(op: &str) -> Result<(Kind, bool), Refused> {
        Ok(match op {
            "sum" | "mean" => (Kind::Sum, false),
            "prod" => (Kind::Product, false),
            "max" => (Kind::Largest, false),
            "min" => (Kind::Largest, true),
            "argmax" => (Kind::Index, false),
            "argmin" => (Kind::Index, true),
            other => return Err(Refused::NoKernel { op: other.to_owned(), types: Vec::new() }),
        })
    }
    /// The op that the kernels are named after, and the struct in the source.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Sum => ("sum", "SumOf"),
            Kind::Product => ("prod", "ProductOf"),
            Kind::Largest => ("max", "LargestOf"),
            Kind::Index => ("argmax", "IndexOf"),
        }
    }
    /// Bytes of a total.
    const fn total(self, t: ElementType) -> u32 {
        let word = if t.bytes() == 8 { 8 } else { 4 };
        match self {
            Kind::Sum | Kind::Product => match t {
                ElementType::F16 | ElementType::Bf16 | ElementType::F32 => 8,
                _ => word,
            },
            Kind::Largest => word,
            Kind::Index => 2 * word,
        }
    }
}

/// Columns per thread; `column_pack` in the source.
const fn column_pack(t: ElementType) -> u32 {
    if t.bytes() == 8 { 2 } else { 4 }
}

/// Elements of a row per load.
const fn row_pack(t: ElementType) -> u32 {
    16 / t.bytes() as u32
}

pub(crate) fn declare(table: &mut Table) {
    let mut reduce = table.of::<ReduceArgs>(Family::Reduce, BLOCK);
    for kind in Kind::ALL {
        let (op, function) = kind.names();
        let reduce = reduce.part(if kind == Kind::Index { "index" } else { "" });
        for t in ElementType::FLOATS.into_iter().chain(ElementType::INTS) {
            let total = kind.total(t);
            reduce.add_variant(op, "rows", &[t], "reduce_rows", &[function], BLOCK / 32 * total);
            let lds = BLOCK * column_pack(t) * total;
            reduce.add_variant(op, "columns", &[t], "reduce_columns", &[function], lds);
        }
    }
}

/// A reduction of `x` to `y`: the dimensions that are kept with the strides of both operands, and those that are reduced with the
/// strides of `x`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Reduction<'a> {
    pub kept: &'a [u64],
    pub x: OperandView<'a>,
    pub y: OperandView<'a>,
    pub reduced: &'a [u64],
    pub along: &'a [i64],
}

/// Prepares `sum`, `mean`, `max`, `min`, `prod`, `argmax` or `argmin`.
pub fn prepare(op: &str, on: &Reduction<'_>, device: &Device, plan: &mut Plan) -> Result<(), Refused> {
    let (kind, flip) = Kind::of(op)?;
    let t = on.x.dtype;
    let along = OperandView { strides: on.along, ..on.x };
    let (kept, [x, y]) = elementwise(on.kept, [on.x, on.y])?;
    let (reduced, [along]) = elementwise(on.reduced, [along])?;
    // One index for all elements, as the count of a sum and the bound of every loop.
    kept.count().checked_mul(reduced.count().max(1)).filter(|n| *n < 1 << 63).ok_or(Refused::Size)?;
    let args = ReduceArgs {
        kept: kept.unpacked(),
        reduced: reduced.unpacked(),
        x,
        y,
        along,
        partial: 0,
        parts: Divider::new(1),
        tiles: Divider::new(1),
        items: 0,
        part: reduced.count(),
        lanes: 1,
        divisor: if op == "mean" { reduced.count() as f64 } else { 1.0 },
        flip: flip.into(),
        pass: WHOLE_OUTPUTS,
    };
    let in_rows = reduced.inner() > 1 && along.stride[5] == 1;
    if kept.inner() >= MIN_COLUMNS && x.stride[5] == 1 && !in_rows {
        columns(kind, t, args, device, plan)
    } else {
        rows(kind, t, args, device, plan)
    }
}

fn rows(
    kind: Kind,
    t: ElementType,
    mut args: ReduceArgs,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let instance = need(kind.names().0, "rows", &[t])?;
    let (n, outputs, pack) = (args.reduced.count(), args.kept.count(), row_pack(t));
    let packs = args.along.stride[5] == 1
        && args.reduced.inner().is_multiple_of(pack.into())
        && args.x.data.is_multiple_of(16)
        && outer_multiples(&args.reduced, &args.along, pack, false)
        && outer_multiples(&args.kept, &args.x, pack, true);
    let pack = if packs { pack } else { 1 };
    args.reduced = args.reduced.with_pack(pack);
    // One wave per output, so that each lane has several loads in flight, unless that leaves most of the device idle.
    let filling = device.blocks(8) * u64::from(BLOCK / device.wave);
    let long = if outputs >= filling && !device.tuning.is_by_row() { device.wave } else { BLOCK };
    let lanes = lanes_for(n, pack, device.wave).unwrap_or(long);
    args.lanes = lanes.into();
    let step = u64::from(BLOCK * pack);
    let most = if lanes == BLOCK { n / (step * MIN_LOADS) } else { 1 };
    split(&mut args, outputs, most, step, device);
    let main = Launch::over(instance, args.items, (BLOCK / lanes).into(), device.row_blocks());
    finish((kind, t), main, args, device, plan)
}

fn columns(
    kind: Kind,
    t: ElementType,
    mut args: ReduceArgs,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let instance = need(kind.names().0, "columns", &[t])?;
    let (n, columns, pack) = (args.reduced.count(), args.kept.inner(), column_pack(t));
    let packs = columns.is_multiple_of(pack.into())
        && args.x.data.is_multiple_of(u64::from(pack) * t.bytes() as u64)
        && outer_multiples(&args.reduced, &args.along, pack, true)
        && outer_multiples(&args.kept, &args.x, pack, false);
    let pack = if packs { pack } else { 1 };
    args.kept = args.kept.with_pack(pack);
    let tiles = columns.div_ceil(TILE_COLUMNS * u64::from(pack)).max(1);
    args.tiles = Divider::new(tiles);
    let all = args.kept.count().checked_div(columns).unwrap_or(0) * tiles;
    split(&mut args, all, n / (SLICES * MIN_LOADS), SLICES, device);
    let main = Launch::over(instance, args.items, 1, device.row_blocks());
    finish((kind, t), main, args, device, plan)
}

/// Splits the elements into parts, at most `most`, so that `items` blocks become enough to fill the device. A part is a multiple
/// of `step` elements.
fn split(args: &mut ReduceArgs, items: u64, most: u64, step: u64, device: &Device) {
    let wanted = if device.tuning.is_by_row() { PARTS_BY_ROW } else { device.blocks(8) / items.max(1) };
    let parts = wanted.min(most).clamp(1, MAX_PARTS);
    let n = args.reduced.count();
    if parts > 1 {
        args.part = n.div_ceil(parts).next_multiple_of(step);
        args.parts = Divider::new(n.div_ceil(args.part));
        args.pass = if args.parts.by() > 1 { WRITE_PARTS } else { WHOLE_OUTPUTS };
    }
    args.items = items * args.parts.by();
}

/// Adds `main`, and a launch that combines parts if there are any.
fn finish(
    (kind, t): (Kind, ElementType),
    main: Launch,
    args: ReduceArgs,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    if args.pass == WHOLE_OUTPUTS {
        return plan.add((main, args));
    }
    let (parts, outputs) = (args.parts.by(), args.kept.count());
    let lanes = parts.next_power_of_two();
    let lanes = if lanes <= u64::from(device.wave) { lanes } else { BLOCK.into() };
    let instance = need(kind.names().0, "rows", &[t])?;
    let combine = Launch::over(instance, outputs, u64::from(BLOCK) / lanes, device.row_blocks());
    plan.workspace = outputs.checked_mul(parts * u64::from(kind.total(t))).ok_or(Refused::Size)?;
    let partial = [offset_of!(ReduceArgs, partial)];
    plan.add_with(main, &args, &partial)?;
    plan.add_with(combine, &ReduceArgs { items: outputs, lanes, pass: READ_PARTS, ..args }, &partial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{device, view};

    /// The plan of a sum of `n` elements for each of `kept` outputs, along rows or columns.
    fn plan(kept: u64, n: u64, in_rows: bool) -> Plan {
        let (of_kept, along) = if in_rows { ([n as i64], [1]) } else { ([1], [kept as i64]) };
        let (x, y) = (view(&of_kept, ElementType::F32), view(&[1], ElementType::F32));
        let on = Reduction { kept: &[kept], x, y, reduced: &[n], along: &along };
        let mut plan = Plan::default();
        prepare("sum", &on, &device(), &mut plan).expect("a kernel");
        plan
    }

    /// The arguments of the first launch.
    fn args(plan: &Plan) -> ReduceArgs {
        plan.args(0).expect("a launch")
    }

    #[test]
    fn outputs_side_by_side_are_reduced_by_columns() {
        let variant = |kept, in_rows| plan(kept, 5, in_rows).main().expect("a launch").instance.variant;
        assert_eq!(variant(MIN_COLUMNS, false), "columns");
        assert_eq!(variant(MIN_COLUMNS - 1, false), "rows");
        assert_eq!(variant(MIN_COLUMNS, true), "rows");
    }

    #[test]
    fn long_sums_are_split_into_parts() {
        let row = u64::from(BLOCK * row_pack(ElementType::F32)) * MIN_LOADS;
        for (in_rows, kept, least) in [(true, 1, 2 * row), (false, MIN_COLUMNS, 2 * SLICES * MIN_LOADS)] {
            let (whole, split) = (plan(kept, least - 4, in_rows), plan(kept, least, in_rows));
            assert!(whole.steps().len() == 1 && args(&whole).pass == WHOLE_OUTPUTS);
            assert!(split.steps().len() == 2 && args(&split).pass == WRITE_PARTS);
            assert_eq!((args(&split).parts.by(), split.workspace), (2, kept * 2 * 8));
        }
        // Blocks that fill the device already are not split further.
        assert_eq!(plan(device().blocks(8), 2 * row, true).steps().len(), 1);
    }
}
