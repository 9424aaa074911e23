//! Products of experts with few rows, fused with the step after them: a gated unit, or the weighted sum of a token's choices.
//!
//! Weights are floats, or blocks on devices with byte dot products. With blocks, each block of threads rounds its row of x to bytes.
use super::{BLOCK, Experts, ExpertsArgs, STEP, is_sorted, strides};
use crate::element_type::{BlockFormat, Kernels};
use crate::index::Report;
use crate::instances::{Table, arguments};
use crate::qlinear::{self, MIN_DOT_OUTPUTS, ROW_COLUMNS, ROW_LDS, dot_lanes, dot_lds};
use crate::{Device, Divider, ElementType, Family, Instance, Launch, OperandView, Plan, Refused};
use ElementType::{Bf16, F16, F32};
use bytemuck::Zeroable;

/// The largest number of tokens.
const TOKENS: u64 = 8;
/// The most choices of a token; `MAX_CHOICES` in the source.
const MAX_CHOICES: u64 = 64;
/// Outputs that a group of lanes computes together of floats; `FUSED_COLUMNS` in the source.
const COLUMNS: u64 = 4;

arguments! {
    /// Arguments of linear_experts_swiglu and linear_experts_combine.
    pub struct ExpertsFusedArgs {
        pub of: ExpertsArgs,
        pub up: u64,
        pub up_bias: u64,
        pub up_bias_stride: [i64; 2],
        pub weights: u64,
        pub weights_stride: [i64; 2],
        pub alpha: f32,
        pub limit: f32,
        pub shift: f32,
        pub reserved: u32,
    }
}

const SWIGLU: &str = "linear_experts_swiglu";
const COMBINE: &str = "linear_experts_combine";

pub(super) fn declare(table: &mut Table) {
    let held = 2 * 4 * MAX_CHOICES as u32;
    for (op, template, held_floats) in [(SWIGLU, "experts_swiglu", 0), (COMBINE, "experts_combine", held)] {
        let mut floats = table.of::<ExpertsFusedArgs>(Family::Experts, BLOCK);
        for weight in [F16, Bf16, F32] {
            let lds = held_floats + dot_lds(COLUMNS);
            floats.part("fused").add_variant(op, "", &[weight], template, &[], lds);
        }
        let mut dot = table.of::<ExpertsFusedArgs>(Family::ExpertsDot, BLOCK);
        for format in BlockFormat::ALL.into_iter().filter(|format| format.kernels() != Kernels::Plain) {
            let types = [ElementType::Block(format)];
            dot.part("fused").add_variant(op, "", &types, template, &[], held + ROW_LDS);
        }
    }
}

/// The operands and parameters of a gated unit other than those of its gate.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Unit<'a> {
    pub up: OperandView<'a>,
    /// Of f32.
    pub up_bias: Option<OperandView<'a>>,
    pub alpha: f64,
    pub limit: Option<f64>,
}

/// Prepares the gated unit of each choice. The first two arguments are those of [`prepare`](super::prepare).
pub fn swiglu(
    [n, k, outputs]: [u64; 3],
    [m, d, experts]: [u64; 3],
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
    // The kernel takes a row that is repeated for each choice as one row.
    let m = if of.x_stride[1] == 0 { 1 } else { m };
    launch(SWIGLU, args, [n, m, 1], on, device, plan)
}

/// Prepares the weighted sum of the products of each token's choices. `weights` is \[n, k\] of f32; y is \[n, o\], with a stride
/// for the choices that is not used. `[d, experts]` and the other arguments are as in [`prepare`](super::prepare).
pub fn combine(
    [n, k, outputs]: [u64; 3],
    [d, experts]: [u64; 2],
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
    launch(COMBINE, args, [n, 1, k], on, device, plan)
}

/// One launch for `n` tokens with `m` rows of x each. Where choices are added, `m` is 1, and a row consists of those of `choices`.
fn launch(
    op: &'static str,
    args: ExpertsFusedArgs,
    [n, m, choices]: [u64; 3],
    on: &Experts<'_>,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    if n > TOKENS {
        return Err(Refused::Limit { what: "tokens", got: n, max: TOKENS });
    }
    let (choices_of_token, experts) = (args.of.choices.by(), args.of.experts);
    if choices_of_token > MAX_CHOICES {
        return Err(Refused::Limit { what: "choices", got: choices_of_token, max: MAX_CHOICES });
    }
    if is_sorted(&args.of, device) {
        return Err(Refused::Because(
            "with this many rows for each expert, rows are sorted by expert".into(),
        ));
    }
    let no_kernel = || Refused::NoKernel { op: op.into(), types: vec![on.x.dtype, on.weight.dtype] };
    // Of floats, the number of lanes, and so the order of a sum, depends on the number of rows.
    let counted = args.of.rows > 0 && experts < u64::from(u32::MAX);
    let fits = counted && !device.tuning.is_by_row() && on.x.dtype != ElementType::F64;
    let kernel = crate::find(op, "", &[on.weight.dtype]).filter(|_| fits).ok_or_else(no_kernel)?;
    let planned = if kernel.family.needs_dot4() {
        of_blocks(kernel, args, n * m, choices, device)
    } else {
        of_floats(kernel, args, [n, choices], device)
    };
    plan.add(planned.ok_or_else(no_kernel)?)
}

/// Groups of lanes, of one wave or several, compute a few outputs each. Where `choices` are added, a group's lanes share their values. `None` unless rows are
/// contiguous, aligned, and a multiple of eight values long.
fn of_floats(
    kernel: &'static Instance,
    args: ExpertsFusedArgs,
    [n, choices]: [u64; 2],
    device: &Device,
) -> Option<(Launch, ExpertsFusedArgs)> {
    let (ExpertsArgs { outputs, d, .. }, is_gated) = (args.of, kernel.op == SWIGLU);
    let are_weights_packed =
        || [args.of.weight, args.up].iter().all(|at| is_packed(&args.of.weight_stride, *at));
    let are_packed = || is_packed(&args.of.x_stride, args.of.x) && are_weights_packed();
    if d > 0 && !(d.is_multiple_of(STEP) && are_packed()) {
        return None;
    }
    let rows = if is_gated { args.of.rows } else { n };
    let columns = if is_gated { COLUMNS / 2 } else { COLUMNS };
    let units = choices.checked_mul(d.div_ceil(STEP)).filter(|units| *units < 1 << 31)?;
    let lanes = dot_lanes(rows.saturating_mul(outputs.div_ceil(columns)), units, device);
    let of_row = outputs.div_ceil(u64::from(BLOCK) / lanes * columns);
    let blocks = rows.checked_mul(of_row).filter(|blocks| *blocks < 1 << 62)?;
    let of = ExpertsArgs { rows, lanes, groups: Divider::new(of_row.max(1)), ..args.of };
    Some((Launch::over(kernel, blocks, 1, device.row_blocks()), ExpertsFusedArgs { of, ..args }))
}

/// Whether elements of a row are contiguous, rows start at multiples of eight elements, and the first is aligned to 16 bytes.
fn is_packed(strides: &[i64; 3], at: u64) -> bool {
    strides[2] == 1 && at.is_multiple_of(16) && strides[..2].iter().all(|stride| stride % STEP as i64 == 0)
}

/// Blocks of threads hold one of the rows of x each, and multiply tiles of columns by it. `None` if the device has no byte products, or none
/// for these sizes.
fn of_blocks(
    kernel: &'static Instance,
    args: ExpertsFusedArgs,
    rows: u64,
    choices: u64,
    device: &Device,
) -> Option<(Launch, ExpertsFusedArgs)> {
    let ExpertsArgs { outputs, d, experts, .. } = args.of;
    let distinct = if args.of.weight_stride[1] == 0 { 1 } else { outputs };
    let steps = choices.checked_mul(d / qlinear::STEP).filter(|steps| *steps < 1 << 27)?;
    let counted = outputs.max(experts) < 1 << 26 && experts > 0 && steps > 0;
    // A row consists of those of its choices.
    let is_row = choices == 1 || args.of.x_stride[1] == d as i64 * args.of.x_stride[2];
    if device.dot4.is_none() || !counted || !is_row || distinct < MIN_DOT_OUTPUTS {
        return None;
    }
    let lanes = steps.next_power_of_two().clamp(device.wave.into(), BLOCK.into());
    let is_gated = kernel.op == SWIGLU;
    // The least of a tile's outputs; some formats have twice as many.
    let of_tile = u64::from(BLOCK) / lanes * if is_gated { ROW_COLUMNS / 2 } else { ROW_COLUMNS };
    // Choices that multiply one row of x.
    let choices_of_row = if is_gated { args.of.rows / rows.max(1) } else { 1 };
    let tiles = outputs.div_ceil(of_tile).checked_mul(choices_of_row).filter(|tiles| *tiles < 1 << 26)?;
    let slots = (device.dot_blocks() / rows.max(1)).clamp(1, tiles.max(1));
    let main = Launch::over(kernel, rows * slots, 1, rows * slots);
    Some((main, ExpertsFusedArgs { of: ExpertsArgs { lanes, slots, ..args.of }, ..args }))
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
            swiglu(dims, [m, d, 32], &on, unit, report, device, &mut plan)?;
        } else {
            combine(dims, [d, 32], &on, view(F32, &[2, 1]), report, device, &mut plan)?;
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
    fn blocks_need_byte_products() {
        let device = |dot4| device(dot4, false);
        let plan = |dot4, weight| plan(SWIGLU, 1, weight, 2048, &device(dot4));
        assert!(plan(None, Q4_K).is_err());
        assert!(plan(None, F16).is_ok());
        let args: ExpertsFusedArgs = plan(Some(Dot4::Signed), Q4_K).unwrap().args(0).unwrap();
        // 64 steps: a lane for each, in four groups.
        assert_eq!(args.of.lanes, 64);
    }

    #[test]
    fn rows_that_must_not_depend_on_each_other_have_no_kernel() {
        let dot4 = Some(Dot4::Signed);
        for (op, weight) in [(SWIGLU, F16), (COMBINE, Q4_K)] {
            assert!(plan(op, 1, weight, 2048, &device(dot4, true)).is_err());
        }
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
