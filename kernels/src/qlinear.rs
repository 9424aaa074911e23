//! qlinear: rows of floats times a quantized weight.
use crate::element_type::{BlockFormat, Kernels};
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::matmul::{Beside, SWIGLU_ROWS, mma_lds};
use crate::quant::kind;
use crate::{
    Device, ElementType, Family, Instance, Launch, OperandView, Plan, Refused, Shape, StridedPointer, rows,
};
use bytemuck::Zeroable;
use std::mem::offset_of;

const BLOCK: u32 = 256;
/// Number of values along k that kernels process at a time; `STEP_VALUES` in the source.
pub(crate) const STEP: u64 = 32;

arguments! {
    /// Arguments of every qlinear kernel.
    pub struct QLinearArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub weight: u64,
        pub weight_row: i64,
        pub weight_block: i64,
        pub rows: u64,
        pub n: u64,
        pub k: u64,
        pub lanes: u64,
        /// Device address of the plan's workspace.
        pub planes: u64,
        pub plane_rows: u64,
        /// The output's type as a value, for byte products.
        pub y_kind: u64,
        pub up: u64,
        pub norm: u64,
        pub eps: f64,
        pub added: StridedPointer,
        pub added_kind: u64,
    }
}

fn tile_lds(size: u32, t: ElementType) -> u32 {
    2 * (BLOCK * 8 / size) * (size + 4) * if t == ElementType::F64 { 8 } else { 4 }
}

/// Tile sizes for matrix units. Their LDS holds the parts of x (as many as its type needs), the weight and its scales.
const MMA_TILES: [(&str, u64); 2] = [("mma128", 128), ("mma64", 64)];

fn declare_mma(table: &mut Table) {
    let mut qlinear = table.of::<QLinearArgs>(Family::QlinearMma, BLOCK);
    for format in BlockFormat::ALL {
        for t in [ElementType::F16, ElementType::Bf16, ElementType::F32] {
            for (variant, tile) in MMA_TILES {
                if format.kernels() == Kernels::Plain || tile > 64 && format.kernels() != Kernels::All {
                    continue;
                }
                let (b, parts) = (ElementType::Block(format), if t == ElementType::F32 { 2 } else { 1 });
                let lds = mma_lds(tile) / 2 * (parts + 1) + 4 * tile as u32 * format.scales_per_line();
                qlinear.add_variant("qlinear", variant, &[b, t], "qlinear_mma", &[&tile.to_string()], lds);
            }
        }
    }
}

/// Variants with byte dot products, and the number of rows of x that each computes together.
const DOTS: [(&str, u64); 4] = [("dot1", 1), ("dot2", 2), ("dot4", 4), ("dot8", 8)];
/// The variants that a format has.
fn dots(format: BlockFormat) -> impl Iterator<Item = (&'static str, u64)> {
    DOTS.into_iter().filter(move |(_, rows)| match format.kernels() {
        Kernels::All => true,
        Kernels::Products => *rows != 2,
        Kernels::Plain => false,
    })
}

/// Whether a variant has a plain product. Four rows by iq3_s would need more scalar registers than gfx9 has.
fn has_product(format: BlockFormat, rows: u64) -> bool {
    rows != 4 || format != BlockFormat::Iq3S
}

/// Number of rows of x that a gated unit's products compute together, if there are several.
const SWIGLU_TOGETHER: u64 = 4;

/// Number of rows of the weight that these variants compute together on AMD GPUs.
const DOT_COLUMNS: u64 = 4;
/// Number of threads per compute unit that hide the latency of memory in these variants; registers have room
/// for about as many.
const DOT_THREADS: u64 = 1024;
/// Number of steps of x that a block of a kernel rounds at a time.
const SPLIT_STEPS: u64 = BLOCK as u64 / 8;

/// LDS of a product with one row: for each thread the bytes of a step and their scale, and the sums of 16
/// tiles of 4 columns.
pub(crate) const ROW_LDS: u32 = 4 * (BLOCK * (8 + 1) + 16 * 4 * BLOCK / 32);

/// LDS of a product whose waves share their sums, `sums` each.
pub(crate) const fn dot_lds(sums: u64) -> u32 {
    4 * sums as u32 * BLOCK / 32
}

/// The minimum number of columns that a product with one row computes together; some formats have four.
/// Blocks without columns exit immediately.
pub(crate) const ROW_COLUMNS: u64 = 2;

fn declare_dot(table: &mut Table) {
    let mut qlinear = table.of::<QLinearArgs>(Family::QlinearDot, BLOCK);
    for t in [ElementType::F16, ElementType::Bf16, ElementType::F32] {
        qlinear.add_variant("qlinear", "split", &[t], "qlinear_split", &[], 0);
    }
    for format in BlockFormat::ALL {
        let types = [ElementType::Block(format)];
        for (variant, rows) in dots(format) {
            let (together, lds) = (rows.to_string(), dot_lds(rows * DOT_COLUMNS));
            let parameters: &[&str] = &[&together];
            if rows == 1 {
                qlinear.part("row").add_variant("qlinear", variant, &types, "qlinear_row", &[], ROW_LDS);
                let gated = qlinear.part("swiglu-row");
                gated.add_variant("linear_swiglu", variant, &types, "swiglu_row", &[], ROW_LDS);
            } else if has_product(format, rows) {
                qlinear.part("rows").add_variant("qlinear", variant, &types, "qlinear_dot", parameters, lds);
            }
            if rows == SWIGLU_TOGETHER {
                let gated = qlinear.part("swiglu-rows");
                gated.add_variant("linear_swiglu", variant, &types, "swiglu_dot", parameters, lds);
            }
        }
    }
}

pub(crate) fn declare(table: &mut Table) {
    declare_mma(table);
    declare_dot(table);
    let mut qlinear = table.of::<QLinearArgs>(Family::Qlinear, BLOCK);
    for format in BlockFormat::ALL {
        let all = format.kernels() == Kernels::All;
        for t in ElementType::FLOATS {
            let types = [ElementType::Block(format), t];
            qlinear.part("row").add_variant("qlinear", "rows1", &types, "qlinear_rows", &["1"], 0);
            if t == ElementType::F64 && !all {
                continue; // one kernel for any number of rows: no model computes in f64
            }
            let several = qlinear.part("rows");
            if format.kernels() != Kernels::Plain {
                several.add_variant("qlinear", "rows4", &types, "qlinear_rows", &["4"], 0);
            }
            if t != ElementType::F64 && all {
                several.add_variant("qlinear", "rows8", &types, "qlinear_rows", &["8"], 0);
            }
            let tiled = qlinear.part("tile");
            tiled.add_variant("qlinear", "tile64", &types, "qlinear_tile", &["1"], tile_lds(64, t));
            if t != ElementType::F64 && all {
                tiled.add_variant("qlinear", "tile128", &types, "qlinear_tile", &["2"], tile_lds(128, t));
            }
        }
    }
}

/// Prepares `y[.., n] = x[.., k] weight[n, k]`. `dims` are those of x, with a whole number of blocks along the last dimension.
/// `weight` is \[n, k / values\] in blocks, and y has the leading dimensions of x.
pub fn prepare(
    dims: &[u64],
    n: u64,
    [x, weight, y]: [OperandView<'_>; 3],
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let (args, types) = arguments(dims, n, [x, weight, y], Beside::default(), device)?;
    if dot(args, types, device, plan)? {
        return Ok(());
    }
    plan.add((launch(&args, types, device)?, args))
}

/// Prepares `y[.., n] = norm(x)[.., k] weight[n, k] + added[.., n]` with byte dot products: few rows, and with a norm only one.
/// Operands are those of [`prepare`].
pub fn fused(
    op: &'static str,
    dims: &[u64],
    n: u64,
    [x, weight, y]: [OperandView<'_>; 3],
    beside: Beside<'_>,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let (args, types) = arguments(dims, n, [x, weight, y], beside, device)?;
    let max = if beside.norm.is_some() { 1 } else { device.tuning.qlinear_rows() };
    if args.rows > max {
        return Err(Refused::Limit { what: "rows", got: args.rows, max });
    }
    let (norm, eps) = beside.norm(op)?;
    let is_planned =
        row_has(&beside, args.rows, device) && dot(QLinearArgs { norm, eps, ..args }, types, device, plan)?;
    if is_planned { Ok(()) } else { Err(Refused::NoKernel { op: op.into(), types: types.to_vec() }) }
}

/// Prepares `y[.., n] = silu(x gateᵀ) · (x upᵀ)` for few rows, with byte dot products; with a norm of x for one row. Operands are those
/// of [`prepare`].
pub fn swiglu(
    dims: &[u64],
    n: u64,
    [x, gate, up, y]: [OperandView<'_>; 4],
    beside: Beside<'_>,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let no_kernel = || {
        let types = vec![x.dtype, gate.dtype, up.dtype];
        Refused::NoKernel { op: "linear_swiglu".into(), types }
    };
    if gate.dtype != up.dtype || gate.strides != up.strides {
        return Err(no_kernel());
    }
    let (args, types) = arguments(dims, n, [x, gate, y], beside, device)?;
    let (norm, eps) = beside.norm("rms_norm_linear_swiglu")?;
    let args = QLinearArgs { up: up.data, norm, eps, ..args };
    let max = if beside.norm.is_some() { 1 } else { SWIGLU_ROWS };
    if args.rows > max {
        return Err(Refused::Limit { what: "rows", got: args.rows, max });
    }
    if !matches!(types[0], ElementType::Block(_)) || !row_has(&beside, args.rows, device) {
        return Err(no_kernel());
    }
    let few = device.tuning.qlinear_dot_rows() <= args.rows.max(1);
    if !few || !fits_dot(&args, types[1], device) {
        return Err(no_kernel());
    }
    if args.rows <= 1 {
        let instance = need("linear_swiglu", "dot1", &types[..1])?;
        // The kernel assumes that there is a row: without one, nothing is launched.
        let args = QLinearArgs { n: args.n * args.rows, ..args };
        return plan.add(of_row(args, ROW_COLUMNS / 2, instance, device));
    }
    let instance = need("linear_swiglu", "dot4", &types[..1])?;
    let shared = (SWIGLU_TOGETHER, DOT_COLUMNS / 2);
    if dot_rows(args, types[1], instance, shared, device, plan)? { Ok(()) } else { Err(no_kernel()) }
}

/// The launch of `op` for one normed row of `n / 2` pairs of columns; other operands are those of [`prepare`].
pub(crate) fn one_row(
    op: &'static str,
    dims: [u64; 2],
    n: u64,
    views: [OperandView<'_>; 3],
    beside: Beside<'_>,
    device: &Device,
) -> Result<(Launch, QLinearArgs), Refused> {
    let (args, types) = arguments(&dims, n, views, beside, device)?;
    let (norm, eps) = beside.norm(op)?;
    if args.rows > 1 {
        return Err(Refused::Limit { what: "rows", got: args.rows, max: 1 });
    }
    let few = device.tuning.qlinear_dot_rows() <= 1 && !device.tuning.is_by_row();
    if !few || !row_has(&beside, 1, device) || !fits_dot(&args, types[1], device) {
        return Err(Refused::NoKernel { op: op.into(), types: types.to_vec() });
    }
    let instance = need(op, "dot1", &types[..1])?;
    let args = QLinearArgs { n: n / 2, norm, eps, ..args };
    Ok(of_row(args, ROW_COLUMNS / 2, instance, device))
}

/// The arguments of a product, and the types of weight and x.
fn arguments(
    dims: &[u64],
    n: u64,
    [x, weight, y]: [OperandView<'_>; 3],
    beside: Beside<'_>,
    device: &Device,
) -> Result<(QLinearArgs, [ElementType; 2]), Refused> {
    let types = [weight.dtype, x.dtype];
    let added = beside.added.unwrap_or(OperandView { data: 0, ..y });
    let added_kind = kind(added.dtype)?.into();
    let (shape, [x, y, added]) = rows(dims, 1, [x, y, added])?;
    let k = shape.inner();
    let max = u64::from(u32::MAX);
    if k > max {
        return Err(Refused::Limit { what: "k", got: k, max });
    }
    let &[weight_row, weight_block] = weight.strides else { return Err(Refused::Rank(weight.strides.len())) };
    let args = QLinearArgs {
        shape,
        x,
        y,
        weight: weight.data,
        weight_row,
        weight_block,
        rows: dims.iter().rev().skip(1).product(),
        n,
        k,
        lanes: (k / STEP).next_power_of_two().min(u64::from(device.wave)),
        y_kind: kind(types[1])?.into(),
        added,
        added_kind,
        ..QLinearArgs::zeroed()
    };
    Ok((args, types))
}

fn times(a: u64, b: u64) -> Result<u64, Refused> {
    a.checked_mul(b).ok_or(Refused::Size)
}

/// Bytes of a row that is split into blocks of bytes: their heads and values, with the blocks rounded up to groups of 32.
fn split_row_bytes(k: u64) -> u64 {
    (k / STEP).next_multiple_of(32) * (8 + STEP)
}

/// With fewer distinct outputs, float products are used: bytes gain nothing there, and rounding errors do not
/// average out.
pub(crate) const MIN_DOT_OUTPUTS: u64 = 64;

/// Whether the device has byte products for this type of x and these sizes. They count columns in 32 bits.
fn fits_dot(args: &QLinearArgs, x: ElementType, device: &Device) -> bool {
    let distinct = if args.weight_row == 0 { args.rows } else { args.rows.saturating_mul(args.n) };
    let fits = args.k > 0 && args.n <= u64::from(u32::MAX) && distinct >= MIN_DOT_OUTPUTS;
    fits && device.dot4.is_some() && x != ElementType::F64
}

/// Plans a product with byte dot products, if the device has them and there are few rows. Returns whether it
/// does.
fn dot(
    args: QLinearArgs,
    types: [ElementType; 2],
    device: &Device,
    plan: &mut Plan,
) -> Result<bool, Refused> {
    let few = device.tuning.qlinear_dot_rows()..=device.tuning.qlinear_rows();
    // One row and several are summed in different orders.
    if device.tuning.is_by_row() || !few.contains(&args.rows) || !fits_dot(&args, types[1], device) {
        return Ok(false);
    }
    let ElementType::Block(format) = types[0] else { return Ok(false) };
    let known = || dots(format).filter(|(_, rows)| has_product(format, *rows));
    let fits = known().find(|(_, rows)| args.rows <= *rows).or_else(|| known().last());
    let Some((variant, together)) = fits else { return Ok(false) };
    let instance = need("qlinear", variant, &types[..1])?; // x has been rounded to bytes, whatever its type was
    if args.rows == 1 {
        return plan.add(of_row(args, ROW_COLUMNS, instance, device)).map(|()| true);
    }
    dot_rows(args, types[1], instance, (together, DOT_COLUMNS), device, plan)
}

/// Plans several rows of this type: a launch rounds them to bytes, and another computes `shared` rows and
/// columns together. Returns `false` if they would need too much memory.
fn dot_rows(
    mut args: QLinearArgs,
    t: ElementType,
    instance: &'static Instance,
    shared: (u64, u64),
    device: &Device,
    plan: &mut Plan,
) -> Result<bool, Refused> {
    args.plane_rows = args.rows.next_multiple_of(shared.0);
    let kernel = need("qlinear", "split", &[t])?;
    let Some((split, workspace)) = split_rows(kernel, args.plane_rows, args.k, device)? else {
        return Ok(false);
    };
    args.lanes = dot_lanes(args.n.div_ceil(shared.1), args.k / STEP, device);
    let per_block = u64::from(BLOCK) / args.lanes * shared.1;
    let main = Launch::over(instance, args.n, per_block, device.row_blocks());
    plan.workspace = workspace;
    plan.add_with(split, &args, &[offset_of!(QLinearArgs, planes)])?;
    plan.add_with(main, &args, &[offset_of!(QLinearArgs, planes)])?;
    Ok(true)
}

/// The launch that rounds `rows` rows of k values to bytes, and the memory for them; `None` if that would be
/// too much.
pub(crate) fn split_rows(
    kernel: &'static Instance,
    rows: u64,
    k: u64,
    device: &Device,
) -> Result<Option<(Launch, u64)>, Refused> {
    let workspace = times(rows, split_row_bytes(k))?;
    if workspace > u64::from(u32::MAX) {
        return Ok(None); // the kernels count its bytes in 32 bits
    }
    let split = Launch::over(kernel, times(rows, k / STEP)?, SPLIT_STEPS, device.row_blocks());
    Ok(Some((split, workspace)))
}

/// Number of lanes in each of the groups that compute a few columns together: those of a wave if this many
/// groups fill the device, otherwise up to a block's, as long as each has a step.
pub(crate) fn dot_lanes(groups: u64, steps: u64, device: &Device) -> u64 {
    let wanted = u64::from(device.compute_units) * DOT_THREADS;
    let mut lanes = u64::from(device.wave);
    while lanes < BLOCK.into() && lanes < steps && groups.saturating_mul(lanes) < wanted {
        lanes *= 2;
    }
    lanes
}

/// Whether the kernel for one row computes what is beside the product (`BESIDE` in the source).
fn row_has(beside: &Beside<'_>, rows: u64, device: &Device) -> bool {
    beside.norm.is_none() && beside.added.is_none() || rows > 1 || device.wave != 64
}

/// The launch of one row, which every block rounds separately: as many lanes as the row has steps, within a
/// block.
fn of_row(
    mut args: QLinearArgs,
    outputs: u64,
    instance: &'static Instance,
    device: &Device,
) -> (Launch, QLinearArgs) {
    let block = u64::from(BLOCK);
    args.lanes = (args.k / STEP).next_power_of_two().clamp(device.wave.into(), block);
    let outputs = outputs * (block / args.lanes);
    (Launch::over(instance, args.n, outputs, device.dot_blocks()), args)
}

/// A launch that assigns groups of lanes to `rows` rows of x and `columns` rows of the weight.
fn groups(
    instance: &'static Instance,
    args: &QLinearArgs,
    (rows, columns): (u64, u64),
    device: &Device,
) -> Result<Launch, Refused> {
    let groups = times(args.rows.div_ceil(rows), args.n.div_ceil(columns))?;
    Ok(Launch::over(instance, groups, u64::from(BLOCK) / args.lanes.max(1), device.row_blocks()))
}

fn launch(args: &QLinearArgs, types: [ElementType; 2], device: &Device) -> Result<Launch, Refused> {
    let has = |variant| crate::find("qlinear", variant, &types).is_some();
    let few = args.rows <= device.tuning.qlinear_rows() || device.tuning.is_by_row();
    if few || !has("tile64") {
        let wide = args.rows > 4 && has("rows8");
        let (variant, together) = match args.rows {
            0 | 1 => ("rows1", (1, 4)),
            _ if !has("rows4") => ("rows1", (1, 4)),
            _ if wide => ("rows8", (8, 2)),
            _ => ("rows4", (4, 2)),
        };
        return groups(need("qlinear", variant, &types)?, args, together, device);
    }
    let tiles = |size| times(args.rows.div_ceil(size), args.n.div_ceil(size));
    let [(large, wide), (small, narrow)] = MMA_TILES;
    if device.matrix.is_some() && has(small) {
        let wide_fits = has(large) && device.takes_large(tiles(wide)?);
        let (variant, tile) = if wide_fits { (large, wide) } else { (small, narrow) };
        return Ok(Launch::over(need("qlinear", variant, &types)?, tiles(tile)?, 1, device.row_blocks()));
    }
    let (instance, tiles) = match crate::find("qlinear", "tile128", &types) {
        Some(large) if device.takes_large(tiles(128)?) => (large, tiles(128)?),
        _ => (need("qlinear", "tile64", &types)?, tiles(64)?),
    };
    Ok(Launch::over(instance, tiles, 1, device.row_blocks()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dot4, Tuning};

    /// Lanes per group and number of blocks for the product of eight rows with a weight of `n` rows of `k`
    /// values in q4_0.
    fn groups_of(compute_units: u32, wave: u32, n: u64, k: u64) -> (u64, u32) {
        let dot4 = Some(Dot4::Signed);
        let device = Device { compute_units, wave, matrix: None, dot4, tuning: Tuning::default() };
        let view = |dtype, strides| OperandView { data: 0, strides, dtype };
        let (row, blocks, out) = ([k as i64, 1], [(k / STEP) as i64, 1], [n as i64, 1]);
        let views = [
            view(ElementType::F16, &row[..]),
            view(ElementType::Block(BlockFormat::Q4_0), &blocks),
            view(ElementType::F16, &out),
        ];
        let mut plan = Plan::default();
        prepare(&[8, k], n, views, &device, &mut plan).unwrap();
        let main = plan.main().unwrap();
        assert_eq!(main.instance.variant, "dot8");
        (plan.args::<QLinearArgs>(1).unwrap().lanes, main.grid[0])
    }

    #[test]
    fn few_rows_of_many_steps_have_several_waves_each() {
        // 304 compute units, waves of 64: the weights of an 8B llama, and its vocabulary.
        assert_eq!(groups_of(304, 64, 4096, 14336), (256, 1024));
        assert_eq!(groups_of(304, 64, 14336, 4096), (128, 1792));
        assert_eq!(groups_of(304, 64, 128256, 4096), (64, 8016));
        // 48 units, waves of 32: no more lanes than steps.
        assert_eq!(groups_of(48, 32, 4096, 4096), (64, 256));
        assert_eq!(groups_of(48, 32, 1024, 4096), (128, 128));
        assert_eq!(groups_of(48, 32, 64, 4096), (128, 8));
        assert_eq!(groups_of(48, 32, 64, 32), (32, 2));
    }
}
