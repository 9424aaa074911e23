//! linear_experts: products of rows with their experts' weight matrices.
//!
//! With few rows, each row is multiplied separately; if the weight has blocks, a kernel first rounds the rows
//! to bytes. With many rows, two kernels sort the rows by expert, and a third multiplies tiles of rows that
//! share an expert. The host does not know how many tiles there are, but it knows the maximum.
use crate::element_type::{BlockFormat, Kernels};
use crate::index::{Report, kind_of};
use crate::instances::{Needs, Table, arguments};
use crate::launch::need;
use crate::matmul::{MMA_TYPES, mma_lds, tile_lds};
use crate::qlinear;
use crate::quant::kind;
use crate::{Device, Divider, ElementType, Family, Instance, Launch, OperandView, Plan, Refused};
use bytemuck::Zeroable;
use std::mem::offset_of;

pub mod fused;

/// Threads per block; `EXPERTS_BLOCK` in the source.
const BLOCK: u32 = 256;
/// Rows and columns of a tile; `EXPERTS_TILE` in the source.
const TILE: u64 = 64;
/// Number of choices that a thread of the sort reads together; `SORT_PACK` in the source.
const PACK: u64 = 4;
/// Bytes of a tile's entry; `ExpertTile` in the source.
const ENTRY: u64 = 16;
/// Number of outputs that a lane group computes together; `experts_columns` in the source.
const fn columns(sums: ElementType) -> u64 {
    if matches!(sums, F64) { 1 } else { 4 }
}
/// Number of values that a lane processes at a time.
const STEP: u64 = 8;
/// Number of outputs that a lane group computes together with byte products; `EXPERT_COLUMNS` in the source.
const DOT_COLUMNS: u64 = 4;

arguments! {
    /// Arguments of linear_experts.
    pub struct ExpertsArgs {
        pub x: u64,
        pub x_stride: [i64; 3],
        pub weight: u64,
        pub weight_stride: [i64; 3],
        pub ids: u64,
        pub ids_stride: [i64; 2],
        pub bias: u64,
        pub bias_stride: [i64; 2],
        pub y: u64,
        pub y_stride: [i64; 3],
        pub choices: Divider,
        pub groups: Divider,
        pub rows: u64,
        pub outputs: u64,
        pub d: u64,
        pub experts: u64,
        pub lanes: u64,
        pub slots: u64,
        /// Device addresses of parts of the workspace.
        pub chosen: u64,
        pub sorted: u64,
        pub tiles: u64,
        /// Device address of an [`ErrorSlot`](crate::index::ErrorSlot).
        pub error: u64,
        pub ids_kind: u32,
        pub kind: u32,
        pub bias_kind: u32,
        pub op: u32,
        pub operand: u32,
        pub reserved: u32,
    }
}

use ElementType::{Bf16, F16, F32, F64};

/// The op of the kernels here.
const OP: &str = "linear_experts";

pub(crate) fn declare(table: &mut Table) {
    // The type of the weight, and that of the sums.
    let floats = [[F16, F32], [Bf16, F32], [F32, F32], [F16, F64], [Bf16, F64], [F32, F64], [F64, F64]];
    let blocks = ElementType::BLOCKS.into_iter().flat_map(|b| [[b, F32], [b, F64]]);
    let types: Vec<_> = floats.into_iter().chain(blocks).collect();
    let mut experts = table.of::<ExpertsArgs>(Family::Experts, BLOCK);
    types.iter().for_each(|types| experts.add(OP, types, "linear_experts", &[]));
    let mut sort = table.of::<ExpertsArgs>(Family::ExpertsSort, BLOCK);
    sort.add_variant(OP, "choices", &[], "expert_choices", &[], 0);
    sort.add_variant(OP, "sort", &[], "experts_sort", &[], 2 * 4 * (2 * BLOCK / 32));
    let mut tile = table.of::<ExpertsArgs>(Family::ExpertsTile, BLOCK);
    for types in types {
        tile.add_variant(OP, "tile64", &types, "experts_tile", &[], tile_lds(TILE as u32, types));
    }
    let mut dot = table.of::<ExpertsArgs>(Family::ExpertsDot, BLOCK);
    dot.add_variant(OP, "split", &[], "expert_split", &[], 0);
    // Four columns of iq3_s would need more scalar registers than gfx9 has.
    let of_row = |format: &BlockFormat| format.kernels() != Kernels::Plain && *format != BlockFormat::Iq3S;
    for format in BlockFormat::ALL.into_iter().filter(of_row) {
        let lds = qlinear::dot_lds(DOT_COLUMNS);
        dot.add_variant(OP, "dot1", &[ElementType::Block(format)], "expert_dot", &[], lds);
    }
    declare_mma(table);
    fused::declare(table);
}

/// The types of the weight and of x.
fn declare_mma(table: &mut Table) {
    let (lds, scale) = (mma_lds(TILE) / 2, 4 * TILE as u32);
    for t in MMA_TYPES {
        let mut mma = table.of::<ExpertsArgs>(Family::ExpertsMma, BLOCK);
        mma.add_variant(OP, "mma64", &[t, t], "experts_mma", &[], 2 * lds);
    }
    // As in `matmul`: f32 is staged as two 16-bit tiles, with f16 also scaled.
    for (t, scales, needs) in [(F16, scale, Needs::Subnormals), (Bf16, 0, Needs::Matrix)] {
        let mut mma = table.of::<ExpertsArgs>(Family::ExpertsMma, BLOCK).needs(needs);
        mma.add_variant(OP, "mma64", &[t, F32], "experts_mma", &[], 3 * lds + scales);
    }
    let mut mma = table.of::<ExpertsArgs>(Family::ExpertsMma, BLOCK);
    for format in BlockFormat::ALL.into_iter().filter(|format| format.kernels() != Kernels::Plain) {
        for t in [F16, Bf16, F32] {
            let parts = if t == F32 { 2 } else { 1 };
            let lds = lds * (parts + 1) + scale * format.scales_per_line();
            mma.add_variant(OP, "mma64", &[ElementType::Block(format), t], "qexperts_mma", &[], lds);
        }
    }
}

/// Operands: x\[n, m, d\], weight\[e, o, d\] of floats or blocks, ids\[n, k\], bias\[e, o\] and y\[n, k, o\].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Experts<'a> {
    pub x: OperandView<'a>,
    pub weight: OperandView<'a>,
    pub ids: OperandView<'a>,
    pub bias: Option<OperandView<'a>>,
    pub y: OperandView<'a>,
}

fn strides<const N: usize>(view: OperandView<'_>) -> Result<[i64; N], Refused> {
    <[i64; N]>::try_from(view.strides).map_err(|_| Refused::Rank(view.strides.len()))
}

/// Bytes of a list with four bytes per choice.
const fn list_bytes(rows: u64) -> u64 {
    4 * rows.next_multiple_of(PACK)
}

/// Prepares the product. `dims` are \[n, k, o\], `[m, d]` are those of x, and `experts` is the number of matrices.
pub fn prepare(
    [n, k, outputs]: [u64; 3],
    [m, d]: [u64; 2],
    experts: u64,
    on: &Experts<'_>,
    report: Report,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let args = arguments_of([n, k, outputs], [m, d], experts, on, report, device)?;
    let sums = if on.x.dtype == F64 || on.weight.dtype == F64 { F64 } else { F32 };
    let types = [on.weight.dtype, sums];
    if is_sorted(&args, device) {
        sorted(args, types, on.x.dtype, device, plan)
    } else if by_bytes(args, types, n, device, plan)? {
        Ok(())
    } else {
        by_row(args, types, device, plan)
    }
}

/// What all kernels of experts take; `m` is 1 if all choices of a token share a row.
fn arguments_of(
    [n, k, outputs]: [u64; 3],
    [m, d]: [u64; 2],
    experts: u64,
    on: &Experts<'_>,
    report: Report,
    device: &Device,
) -> Result<ExpertsArgs, Refused> {
    let rows = n.checked_mul(k).ok_or(Refused::Size)?;
    let [x0, x1, x2] = strides(on.x)?;
    Ok(ExpertsArgs {
        x: on.x.data,
        x_stride: [x0, if m == 1 { 0 } else { x1 }, x2],
        weight: on.weight.data,
        weight_stride: strides(on.weight)?,
        ids: on.ids.data,
        ids_stride: strides(on.ids)?,
        bias: on.bias.map_or(0, |bias| bias.data),
        bias_stride: on.bias.map_or(Ok([0, 0]), strides)?,
        y: on.y.data,
        y_stride: strides(on.y)?,
        choices: Divider::new(k.max(1)),
        groups: Divider::new(1),
        rows,
        outputs,
        d,
        experts,
        lanes: d.div_ceil(STEP).next_power_of_two().min(u64::from(device.wave)),
        error: report.error,
        ids_kind: kind_of(on.ids.dtype)?,
        kind: kind(on.x.dtype)?,
        bias_kind: on.bias.map_or(Ok(0), |bias| kind(bias.dtype))?,
        op: report.op,
        operand: report.operand,
        ..ExpertsArgs::zeroed()
    })
}

/// Whether rows are sorted by expert. A tile sums in a different order than a separate row. The sort counts
/// choices and experts in 32 bits.
fn is_sorted(args: &ExpertsArgs, device: &Device) -> bool {
    let enough = args.experts.saturating_mul(device.tuning.expert_rows());
    let counted = !device.tuning.is_by_row() && args.rows <= 1 << 31 && args.experts < 1 << 31;
    args.rows >= enough && counted && args.experts > 0 && args.outputs > 0 && args.d > 0
}

/// One launch, in which each row reads the matrix of its expert.
fn by_row(
    args: ExpertsArgs,
    types: [ElementType; 2],
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let groups = args.outputs.div_ceil(columns(types[1]));
    let items = args.rows.checked_mul(groups).filter(|items| *items < 1 << 62).ok_or(Refused::Size)?;
    let per_block = u64::from(BLOCK) / args.lanes;
    let main = Launch::over(need(OP, "", &types)?, items, per_block, device.row_blocks());
    plan.add((main, ExpertsArgs { groups: Divider::new(groups.max(1)), ..args }))
}

/// Two launches: one rounds the rows of x to bytes, and in the other each row reads the matrix of its expert.
/// Returns `false` if the device has no byte products, or none for these types and sizes, which the kernels
/// count in 32 bits.
fn by_bytes(
    args: ExpertsArgs,
    types: [ElementType; 2],
    tokens: u64,
    device: &Device,
    plan: &mut Plan,
) -> Result<bool, Refused> {
    let Some(instance) = crate::find(OP, "dot1", &types[..1]) else { return Ok(false) };
    // The number of lanes, and so the order of a sum, depends on the number of rows.
    let fits = device.dot4.is_some() && types[1] == F32 && !device.tuning.is_by_row();
    let counted = args.d > 0 && args.d.max(args.outputs).max(args.experts) < u64::from(u32::MAX);
    let distinct = if args.weight_stride[1] == 0 { 1 } else { args.outputs };
    if !fits || !counted || args.rows == 0 || distinct < qlinear::MIN_DOT_OUTPUTS {
        return Ok(false);
    }
    let slots = if args.x_stride[1] == 0 { tokens } else { args.rows };
    let kernel = need(OP, "split", &[])?;
    let Some((split, workspace)) = qlinear::split_rows(kernel, slots, args.d, device)? else {
        return Ok(false);
    };
    let groups = args.rows.saturating_mul(args.outputs.div_ceil(DOT_COLUMNS));
    let lanes = qlinear::dot_lanes(groups, args.d / qlinear::STEP, device);
    let blocks_of_row = args.outputs.div_ceil(u64::from(BLOCK) / lanes * DOT_COLUMNS);
    let blocks = args.rows.checked_mul(blocks_of_row).filter(|n| *n < 1 << 62).ok_or(Refused::Size)?;
    let main = Launch::over(instance, blocks, 1, device.row_blocks());
    let args = ExpertsArgs { groups: Divider::new(blocks_of_row), lanes, slots, ..args };
    plan.workspace = workspace;
    plan.add_with(split, &args, &[offset_of!(ExpertsArgs, tiles)])?;
    plan.add_with(main, &args, &[offset_of!(ExpertsArgs, tiles)])?;
    Ok(true)
}

/// Two launches that sort the rows by expert, and one that multiplies them in tiles.
fn sorted(
    args: ExpertsArgs,
    types: [ElementType; 2],
    x: ElementType,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    // At most this many tiles have rows: each expert has at most one partial tile, and so do choices of "no expert".
    let slots = args.rows / TILE + args.experts + 1;
    let columns = args.outputs.div_ceil(TILE);
    let tiles = slots.checked_mul(columns).filter(|tiles| *tiles < 1 << 62).ok_or(Refused::Size)?;
    let blocks = device.blocks(device.tuning.element_blocks());
    let choices = Launch::over(need(OP, "choices", &[])?, args.rows, BLOCK.into(), blocks);
    let sort = Launch::over(need(OP, "sort", &[])?, args.experts + 1, 1, device.row_blocks());
    let main = Launch::over(tile_kernel(types, x, device)?, tiles, 1, device.row_blocks());
    let chosen = slots * ENTRY;
    let sorted = chosen + list_bytes(args.rows);
    plan.workspace = sorted + list_bytes(args.rows);
    let args = ExpertsArgs { groups: Divider::new(columns), slots, chosen, sorted, ..args };
    let parts =
        [offset_of!(ExpertsArgs, tiles), offset_of!(ExpertsArgs, chosen), offset_of!(ExpertsArgs, sorted)];
    [choices, sort, main].into_iter().try_for_each(|launch| plan.add_with(launch, &args, &parts))
}

/// The kernel for tiles: on matrix units if the device has them and they support these types.
fn tile_kernel(
    types: [ElementType; 2],
    x: ElementType,
    device: &Device,
) -> Result<&'static Instance, Refused> {
    let on_matrix = crate::find(OP, "mma64", &[types[0], x]).filter(|k| k.runs_with(device.matrix));
    on_matrix.map_or_else(|| need(OP, "tile64", &types), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dot4, Matrix, Tuning};

    fn plan(rows: u64, types: [ElementType; 2], matrix: Option<Matrix>) -> Plan {
        let device = Device { compute_units: 4, wave: 32, matrix, dot4: None, tuning: Tuning::default() };
        let view = |dtype, strides| OperandView { data: 0, strides, dtype };
        let [x, weight] = types;
        let on = Experts {
            x: view(x, &[256, 256, 1]),
            weight: view(weight, &[100, 1, 1]),
            ids: view(ElementType::U32, &[1, 1]),
            bias: None,
            y: view(x, &[100, 100, 1]),
        };
        let mut plan = Plan::default();
        prepare([rows, 1, 100], [1, 256], 8, &on, Report::default(), &device, &mut plan).unwrap();
        plan
    }

    #[test]
    fn rows_are_sorted_from_a_mean_number_on() {
        assert_eq!(plan(31, [F16, F16], None).steps().len(), 1);
        assert_eq!(plan(32, [F16, F16], None).steps().len(), 3);
        assert_eq!(plan(0, [F16, F16], None).steps().len(), 1);
    }

    /// 64 outputs of rows of 4096 with 8 matrices in q4_0, two per token.
    fn by_bytes(tokens: u64, x: ElementType, dot4: Option<Dot4>, shared: bool, by_row: bool) -> Plan {
        let tuning = Tuning::default().by_row(by_row);
        let device = Device { compute_units: 4, wave: 32, matrix: None, dot4, tuning };
        let view = |dtype, strides| OperandView { data: 0, strides, dtype };
        let on = Experts {
            x: view(x, if shared { &[4096, 0, 1] } else { &[8192, 4096, 1] }),
            weight: view(ElementType::Block(BlockFormat::Q4_0), &[64 * 128, 128, 1]),
            ids: view(ElementType::U32, &[2, 1]),
            bias: None,
            y: view(x, &[128, 64, 1]),
        };
        let m = if shared { 1 } else { 2 };
        let mut plan = Plan::default();
        prepare([tokens, 2, 64], [m, 4096], 8, &on, Report::default(), &device, &mut plan).unwrap();
        plan
    }

    #[test]
    fn few_rows_by_blocks_are_rounded_to_bytes() {
        let dot4 = Some(Dot4::Signed);
        let mut plan = by_bytes(3, F16, dot4, true, false);
        // 3 rows of x of 128 blocks, in 40 bytes each; 6 choices of 16 groups would have 3072 of 4096 threads with waves of 32.
        assert_eq!((plan.steps().len(), plan.workspace), (2, 3 * 128 * 40));
        plan.place(1 << 20, 0);
        let launches: Vec<_> = plan.steps().map(|step| step.launch).collect();
        let args: ExpertsArgs = plan.args(1).unwrap();
        assert_eq!((launches[0].instance.variant, launches[1].instance.variant), ("split", "dot1"));
        assert_eq!(
            (args.tiles, args.slots, args.lanes, args.groups.by(), launches[1].grid[0]),
            (1 << 20, 3, 64, 4, 24)
        );
        assert_eq!(by_bytes(3, F16, dot4, false, false).workspace, 6 * 128 * 40);
        for plan in [
            by_bytes(3, F64, dot4, true, false),
            by_bytes(3, F16, None, true, false),
            by_bytes(3, F16, dot4, true, true),
            by_bytes(0, F16, dot4, true, false),
        ] {
            assert_eq!((plan.steps().len(), plan.workspace), (1, 0));
        }
    }

    #[test]
    fn matrix_units_take_what_they_multiply_exactly() {
        let symbol = |types, matrix| plan(99, types, matrix).main().unwrap().instance.symbol.as_str();
        let (wmma, mfma) = (Some(Matrix::Wmma11), Some(Matrix::Mfma90a));
        let q4_k = ElementType::Block(BlockFormat::Q4K);
        assert_eq!(symbol([F16, F16], wmma), "linear_experts_mma64_f16_f16");
        assert_eq!(symbol([F32, F16], wmma), "linear_experts_mma64_f16_f32");
        assert_eq!(symbol([F32, F16], mfma), "linear_experts_tile64_f16_f32");
        assert_eq!(symbol([Bf16, F16], wmma), "linear_experts_tile64_f16_f32");
        assert_eq!(symbol([F32, q4_k], mfma), "linear_experts_mma64_q4_k_f32");
        assert_eq!(symbol([F64, q4_k], mfma), "linear_experts_tile64_q4_k_f64");
        assert_eq!(symbol([F16, q4_k], None), "linear_experts_tile64_q4_k_f32");
    }

    #[test]
    fn a_workspace_holds_both_lists_and_every_tile() {
        let mut plan = plan(130, [F16, F16], None);
        // Two full tiles, one partial tile per expert, and one for choices of "no expert".
        let slots = 2 + 8 + 1;
        assert_eq!(plan.workspace, slots * 16 + 2 * 132 * 4);
        assert_eq!(plan.main().unwrap().grid[0], slots as u32 * 2);
        plan.place(1 << 20, 0);
        let args: ExpertsArgs = plan.args(2).unwrap();
        let base = 1 << 20;
        assert_eq!(
            [args.tiles, args.chosen, args.sorted],
            [base, base + slots * 16, base + slots * 16 + 528]
        );
    }
}
