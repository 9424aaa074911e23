//! cumsum and cumprod along the last dimension.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{
    Device, Divider, ElementType, Family, Launch, OperandView, Plan, Refused, Shape, StridedPointer, rows,
};
use std::mem::offset_of;

const BLOCK: u32 = 256;
/// Minimum number of elements per part; parts are whole steps of a block of packs of any type.
const MIN_PART: u64 = 4 * PART_STEP;
const PART_STEP: u64 = BLOCK as u64 * 16;
const MAX_PARTS: u64 = 1024;
/// Number of parts of a long row, if it must not depend on the number of rows.
const PARTS_BY_ROW: u64 = 16;
/// With at least this many rows adjacent in memory, each row gets one thread.
const COLUMN_ROWS: u64 = 32;
/// Rows of at most this many elements get one thread too.
const SHORT_ROW: u64 = 16;

arguments! {
    /// Arguments of cumsum and cumprod.
    pub struct ScanArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        /// Device address of the workspace, aligned to 8 bytes. Unused with one part.
        pub partial: u64,
        pub parts: Divider,
        pub rows: u64,
        pub part: u64,
        pub totals: u64,
    }
}

/// The ops, with how they join elements in the source, and the part that they are compiled in.
const OPS: [(&str, &str, &str); 2] = [("cumsum", "Sums", ""), ("cumprod", "Products", "product")];

/// Bytes of a sum.
const fn sum_bytes(t: ElementType) -> u32 {
    match t {
        ElementType::F16 | ElementType::Bf16 | ElementType::F32 => 8,
        _ if t.bytes() == 8 => 8,
        _ => 4,
    }
}

pub(crate) fn declare(table: &mut Table) {
    for (op, join, part) in OPS {
        for t in ElementType::FLOATS.into_iter().chain(ElementType::INTS) {
            let mut scan = table.of::<ScanArgs>(Family::Scan, BLOCK);
            let scan = scan.part(part);
            scan.add_variant(op, "rows", &[t], "scan_rows", &[join], 2 * (BLOCK / 32) * sum_bytes(t));
            scan.add_variant(op, "columns", &[t], "scan_columns", &[join], 0);
        }
    }
}

/// Prepares `op`, cumsum or cumprod, along the last of `dims`: either one launch, or one for the results of parts and one, with
/// the same kernel, for the result.
pub fn prepare(
    op: &str,
    dims: &[u64],
    x: OperandView<'_>,
    y: OperandView<'_>,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let t = x.dtype;
    let (shape, [x, y]) = rows(dims, 1, [x, y])?;
    let n = shape.inner();
    let count = shape.count().checked_div(n).unwrap_or(0);
    let mut args =
        ScanArgs { shape, x, y, partial: 0, parts: Divider::new(1), rows: count, part: n, totals: 0 };
    let side_by_side = x.stride[4] == 1 && x.stride[5] != 1;
    let by_row = device.tuning.is_by_row();
    if (side_by_side && count >= COLUMN_ROWS && !by_row) || n <= SHORT_ROW {
        let instance = need(op, "columns", &[t])?;
        let most = device.blocks(device.tuning.element_blocks());
        let launch = Launch::over(instance, count, u64::from(instance.block), most);
        return plan.add((launch, args));
    }
    let instance = need(op, "rows", &[t])?;
    let wanted = if by_row { PARTS_BY_ROW } else { device.blocks(8) / count.max(1) };
    let parts = wanted.min(n / MIN_PART).clamp(1, MAX_PARTS);
    if parts > 1 {
        args.part = n.div_ceil(parts).next_multiple_of(PART_STEP);
        args.parts = Divider::new(n.div_ceil(args.part));
        args.totals = u64::from(args.parts.by() > 1);
    }
    let items = count.checked_mul(args.parts.by()).ok_or(Refused::Size)?;
    let launch = Launch::over(instance, items, 1, device.row_blocks());
    if args.totals == 0 {
        return plan.add((launch, args));
    }
    plan.workspace = items * u64::from(sum_bytes(t));
    plan.add_with(launch, &args, &[offset_of!(ScanArgs, partial)])?;
    plan.add_with(launch, &ScanArgs { totals: 0, ..args }, &[offset_of!(ScanArgs, partial)])
}
