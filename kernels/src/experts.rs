//! linear_experts: products of rows with the matrices of their experts.
use crate::index::{Report, kind_of};
use crate::instances::{Arguments, Table};
use crate::launch::need;
use crate::quant::kind;
use crate::{Device, Divider, ElementType, Family, Launch, OperandView, Refused};

/// Threads per block; `EXPERTS_BLOCK` in the source.
const BLOCK: u32 = 256;
/// Outputs that a group of lanes computes together; `experts_columns` in the source.
const fn columns(sums: ElementType) -> u64 {
    if matches!(sums, F64) { 1 } else { 4 }
}
/// Values that a lane takes at a time.
const STEP: u64 = 8;

/// Arguments of linear_experts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
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
    /// Device address of an [`ErrorSlot`](crate::index::ErrorSlot).
    pub error: u64,
    pub ids_kind: u32,
    pub kind: u32,
    pub bias_kind: u32,
    pub op: u32,
    pub operand: u32,
    pub reserved: u32,
}

impl Arguments for ExpertsArgs {
    const NAME: &'static str = "ExpertsArgs";
}

use ElementType::{Bf16, F16, F32, F64};

pub(crate) fn declare(table: &mut Table) {
    let mut experts = table.of::<ExpertsArgs>(Family::Experts, BLOCK);
    // The type of the weight, and the one that sums are in.
    let floats = [[F16, F32], [Bf16, F32], [F32, F32], [F16, F64], [Bf16, F64], [F32, F64], [F64, F64]];
    let blocks = ElementType::BLOCKS.into_iter().flat_map(|b| [[b, F32], [b, F64]]);
    for types in floats.into_iter().chain(blocks) {
        experts.add("linear_experts", &types, "linear_experts", &[]);
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

/// Prepares the product. `dims` are \[n, k, o\], `[m, d]` are those of x, and `experts` is the number of matrices.
pub fn prepare(
    [n, k, outputs]: [u64; 3],
    [m, d]: [u64; 2],
    experts: u64,
    on: &Experts<'_>,
    report: Report,
    device: &Device,
) -> Result<(Launch, ExpertsArgs), Refused> {
    let sums = if on.x.dtype == F64 || on.weight.dtype == F64 { F64 } else { F32 };
    let instance = need("linear_experts", "", &[on.weight.dtype, sums])?;
    let rows = n.checked_mul(k).ok_or(Refused::Size)?;
    let groups = outputs.div_ceil(columns(sums));
    let items = rows.checked_mul(groups).filter(|items| *items < 1 << 62).ok_or(Refused::Size)?;
    let lanes = d.div_ceil(STEP).next_power_of_two().min(u64::from(device.wave));
    let [x0, x1, x2] = strides(on.x)?;
    let args = ExpertsArgs {
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
        groups: Divider::new(groups.max(1)),
        rows,
        outputs,
        d,
        experts,
        lanes,
        error: report.error,
        ids_kind: kind_of(on.ids.dtype)?,
        kind: kind(on.x.dtype)?,
        bias_kind: on.bias.map_or(Ok(0), |bias| kind(bias.dtype))?,
        op: report.op,
        operand: report.operand,
        reserved: 0,
    };
    let per_block = u64::from(BLOCK) / lanes;
    Ok((Launch::over(instance, items, per_block, device.row_blocks()), args))
}
