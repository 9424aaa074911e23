//! Products of experts with few rows, fused with the step after them: a gated unit, or the weighted sum of a token's choices.
//!
//! Weights are of floats, or of blocks on devices with byte dot products; then every block of threads rounds the rows that it multiplies.
use super::{BLOCK, DOT_COLUMNS, Experts, ExpertsArgs, STEP, is_sorted, strides};
use crate::element_type::{BlockFormat, Kernels};
use crate::index::Report;
use crate::instances::{Table, arguments};
use crate::qlinear::{self, MIN_DOT_OUTPUTS, dot_lanes, dot_lds};
use crate::{Device, Divider, ElementType, Family, Instance, Launch, OperandView, Plan, Refused};
use ElementType::{Bf16, F16, F32};
use bytemuck::Zeroable;

/// The largest number of tokens.
const TOKENS: u64 = 8;
/// Rows that a block of threads holds at most; `MOST_TOGETHER` in the source.
const MOST_TOGETHER: u64 = 16;
/// Groups of 32 steps that a block of threads holds; `HELD_GROUPS` in the source.
const HELD_GROUPS: u64 = 16;
/// Bytes of 32 steps; `GROUP_BYTES` in the source.
const GROUP_BYTES: u32 = 32 * (8 + 32);

arguments! {
    /// Arguments of linear_experts_swiglu and linear_experts_combine.
    pub struct ExpertsFusedArgs {
        pub of: ExpertsArgs,
        pub up: u64,
        pub up_bias: u64,
        pub up_bias_stride: [i64; 2],
        pub weights: u64,
        pub weights_stride: [i64; 2],
        pub together: u64,
        pub alpha: f32,
        pub limit: f32,
        pub shift: f32,
        pub reserved: u32,
    }
}

const SWIGLU: &str = "linear_experts_swiglu";
const COMBINE: &str = "linear_experts_combine";

pub(super) fn declare(table: &mut Table) {
    let lds = 2 * 4 * MOST_TOGETHER as u32 + dot_lds(DOT_COLUMNS);
    for (op, template) in [(SWIGLU, "experts_swiglu"), (COMBINE, "experts_combine")] {
        let mut floats = table.of::<ExpertsFusedArgs>(Family::Experts, BLOCK);
        for weight in [F16, Bf16, F32] {
            floats.part("fused").add_variant(op, "", &[weight], template, &[], lds);
        }
        let mut dot = table.of::<ExpertsFusedArgs>(Family::ExpertsDot, BLOCK);
        for format in BlockFormat::ALL.into_iter().filter(|format| format.kernels() != Kernels::Plain) {
            let lds = lds + HELD_GROUPS as u32 * GROUP_BYTES;
            dot.part("fused").add_variant(op, "", &[ElementType::Block(format)], template, &[], lds);
        }
    }
}

/// A gated unit beside the operands of its gate.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Unit<'a> {
    pub up: OperandView<'a>,
    /// Of f32.
    pub up_bias: Option<OperandView<'a>>,
    pub alpha: f64,
    pub limit: Option<f64>,
}

/// Prepares the gated unit of each choice. The first arguments are those of [`prepare`](super::prepare).
#[allow(clippy::too_many_arguments)]
pub fn swiglu(
    [n, k, outputs]: [u64; 3],
    [m, d]: [u64; 2],
    experts: u64,
    on: &Experts<'_>,
    unit: Unit<'_>,
    report: Report,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let Unit { up, up_bias, alpha, limit } = unit;
    let of = super::arguments_of([n, k, outputs], [m, d], experts, on, report, device)?;
    if up.dtype != on.weight.dtype || up.strides != on.weight.strides {
        return Err(Refused::NoKernel {
            op: SWIGLU.into(),
            types: vec![on.x.dtype, on.weight.dtype, up.dtype],
        });
    }
    let args = ExpertsFusedArgs {
        of,
        up: up.data,
        up_bias: up_bias.map_or(0, |bias| bias.data),
        up_bias_stride: up_bias.map_or(Ok([0, 0]), strides)?,
        alpha: limit.map_or(1.0, |_| alpha as f32),
        limit: limit.map_or(f32::INFINITY, |limit| limit as f32),
        shift: limit.map_or(0.0, |_| 1.0),
        ..ExpertsFusedArgs::zeroed()
    };
    launch(SWIGLU, args, [n, 1], DOT_COLUMNS / 2, on, device, plan)
}

/// Prepares the weighted sum of the products of each token's choices. `weights` is \[n, k\] of f32; y is \[n, o\], with a stride
/// for the choices that is not used. The other arguments are those of [`prepare`](super::prepare).
pub fn combine(
    [n, k, outputs]: [u64; 3],
    d: u64,
    experts: u64,
    on: &Experts<'_>,
    weights: OperandView<'_>,
    report: Report,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let of = super::arguments_of([n, k, outputs], [k, d], experts, on, report, device)?;
    let args = ExpertsFusedArgs {
        weights: weights.data,
        weights_stride: strides(weights)?,
        of: ExpertsArgs { x_stride: strides(on.x)?, ..of },
        ..ExpertsFusedArgs::zeroed()
    };
    launch(COMBINE, args, [n, k], DOT_COLUMNS, on, device, plan)
}

/// One launch for `n` tokens, in which a group of lanes computes `columns` outputs from `rows` rows of x each.
fn launch(
    op: &'static str,
    args: ExpertsFusedArgs,
    [n, rows]: [u64; 2],
    columns: u64,
    on: &Experts<'_>,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let ExpertsArgs { rows: choices, outputs, d, .. } = args.of;
    if n > TOKENS || is_sorted(&args.of, device) {
        return Err(Refused::Limit { what: "rows", got: n, max: TOKENS });
    }
    let no_kernel = || Refused::NoKernel { op: op.into(), types: vec![on.x.dtype, on.weight.dtype] };
    // The number of lanes, and so the order of a sum, depends on the number of rows.
    let fits = !device.tuning.is_by_row() && on.x.dtype != ElementType::F64 && choices > 0;
    let kernel =
        crate::find(op, "", &[on.weight.dtype]).filter(|_| fits && d < 1 << 28).ok_or_else(no_kernel)?;
    let (units, together) = held(kernel, &args.of, rows, device).ok_or_else(no_kernel)?;
    let outer = if rows == 1 { choices } else { n };
    let groups = outer.saturating_mul(outputs.div_ceil(columns));
    let lanes = dot_lanes(groups, units.saturating_mul(rows), device);
    let of_row = outputs.div_ceil(u64::from(BLOCK) / lanes * columns);
    let blocks = outer.checked_mul(of_row).filter(|blocks| *blocks < 1 << 62).ok_or(Refused::Size)?;
    let of = ExpertsArgs { rows: outer, lanes, groups: Divider::new(of_row.max(1)), ..args.of };
    let main = Launch::over(kernel, blocks, 1, device.row_blocks());
    plan.add((main, ExpertsFusedArgs { of, together, ..args }))
}

/// The number of units of a row, and of the rows that a block of threads holds at a time. `None` if the device has no byte products, or
/// none for these sizes.
fn held(kernel: &Instance, of: &ExpertsArgs, rows: u64, device: &Device) -> Option<(u64, u64)> {
    let most = rows.min(MOST_TOGETHER);
    if !kernel.family.needs_dot4() {
        return Some((of.d.div_ceil(STEP), most));
    }
    let steps = of.d / qlinear::STEP;
    let distinct = if of.weight_stride[1] == 0 { 1 } else { of.outputs };
    let counted = of.outputs.max(of.experts) < u64::from(u32::MAX);
    let together = HELD_GROUPS.checked_div(steps.div_ceil(32))?.min(most);
    let fits = device.dot4.is_some() && counted && distinct >= MIN_DOT_OUTPUTS && together > 0;
    fits.then_some((steps, together))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dot4, Tuning};

    /// Tokens of 2048 values with two of 32 experts each, and 768 outputs; or, for sums, the other way round.
    fn plan(op: &str, tokens: u64, weight: ElementType, d: u64, device: &Device) -> Result<Plan, Refused> {
        let (is_gated, k) = (op == SWIGLU, 2);
        let outputs = if is_gated { 768 } else { 2048 };
        let (o, m) = (outputs as i64, if is_gated { 1 } else { k });
        let view = |dtype, strides| OperandView { data: 0, strides, dtype };
        let (x, w, y) = ([m as i64 * d as i64, d as i64, 1], [o * d as i64, d as i64, 1], [2 * o, o, 1]);
        let on = Experts {
            x: view(F16, &x),
            weight: view(weight, &w),
            ids: view(ElementType::U32, &[2, 1]),
            bias: None,
            y: view(F16, &y),
        };
        let mut plan = Plan::default();
        let dims = [tokens, k, outputs];
        let report = Report::default();
        if is_gated {
            let unit = Unit { up: on.weight, up_bias: None, alpha: 1.0, limit: None };
            swiglu(dims, [m, d], 32, &on, unit, report, device, &mut plan)?;
        } else {
            combine(dims, d, 32, &on, view(F32, &[2, 1]), report, device, &mut plan)?;
        }
        Ok(plan)
    }

    const Q4_K: ElementType = ElementType::Block(BlockFormat::Q4K);

    fn device(dot4: Option<Dot4>, by_row: bool) -> Device {
        Device { compute_units: 4, wave: 32, matrix: None, dot4, tuning: Tuning::default().by_row(by_row) }
    }

    #[test]
    fn few_tokens_take_one_launch_without_memory() {
        let device = device(Some(Dot4::Signed), false);
        for (op, weight) in [(SWIGLU, F16), (SWIGLU, Q4_K), (COMBINE, F16), (COMBINE, Q4_K)] {
            for tokens in [1, 8] {
                let plan = plan(op, tokens, weight, 2048, &device).unwrap();
                assert_eq!((plan.steps().len(), plan.workspace), (1, 0), "{op} {tokens}");
            }
            assert!(plan(op, 9, weight, 2048, &device).is_err(), "{op}");
        }
    }

    #[test]
    fn blocks_need_byte_products_and_room_for_a_row() {
        let args = |op, d| {
            let plan = plan(op, 1, Q4_K, d, &device(Some(Dot4::Signed), false)).ok()?;
            plan.args::<ExpertsFusedArgs>(0)
        };
        // 64 steps are two groups, of which sixteen fit.
        assert_eq!(args(COMBINE, 2048).map(|args| args.together), Some(2));
        assert_eq!(args(COMBINE, 16_384).map(|args| args.together), Some(1));
        assert!(args(COMBINE, 16_384 + 256).is_none());
        assert!(plan(SWIGLU, 1, Q4_K, 2048, &device(None, false)).is_err());
        assert!(plan(SWIGLU, 1, F16, 2048, &device(None, false)).is_ok());
        assert!(plan(SWIGLU, 1, F16, 2048, &device(None, true)).is_err());
    }

    #[test]
    fn a_narrow_sum_is_shared_by_several_waves() {
        let lanes = |compute_units| {
            let device = Device { compute_units, ..device(None, false) };
            let args: ExpertsFusedArgs = plan(COMBINE, 1, F16, 2048, &device).unwrap().args(0).unwrap();
            (args.of.lanes, args.of.groups.by())
        };
        // 512 groups of four outputs are 16384 threads with waves of 32.
        assert_eq!((lanes(4), lanes(100)), ((32, 64), (256, 512)));
    }
}
