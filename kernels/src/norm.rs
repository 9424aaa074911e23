//! rms_norm, add_rms_norm and layer_norm over the last dimension; group_norm over groups of channels.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{
    Device, Divider, ElementType, Family, Launch, OperandView, Plan, Refused, Shape, StridedPointer,
    elementwise, rows,
};
use std::mem::offset_of;

const BLOCK: u32 = 256;
/// Number of packs that a lane keeps in registers; of rows read by single elements of up to four bytes, one.
const CACHED: u64 = 4;
/// Elements in one part of a group; `GROUP_PART` in the source.
const GROUP_PART: u64 = 4096;
/// Number of blocks per large group, if it must not depend on the number of groups.
const SHARES_BY_ROW: u64 = 16;
/// Accumulators for the moments of one part.
const MOMENTS: u64 = 3;

arguments! {
    /// Arguments of rms_norm, add_rms_norm and layer_norm.
    pub struct NormArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub residual: StridedPointer,
        pub y: StridedPointer,
        pub sum: StridedPointer,
        pub weight: u64,
        pub bias: u64,
        pub weight_stride: i64,
        pub bias_stride: i64,
        pub rows: u64,
        pub lanes: u64,
        pub eps: f64,
    }

    /// Arguments of group_norm.
    pub struct GroupNormArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub weight: u64,
        pub bias: u64,
        pub weight_stride: i64,
        pub bias_stride: i64,
        pub spatial: Divider,
        pub groups: u64,
        pub group_rows: u64,
        pub channels: u64,
        pub lanes: u64,
        pub eps: f64,
        /// Device address of the plan's workspace.
        pub partial: u64,
        pub parts: u64,
        pub shares: u64,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut norm = table.of::<NormArgs>(Family::Norm, BLOCK);
    for [t, w] in ElementType::WEIGHTED {
        let types = [t, w];
        for (variant, part, whole, lds) in
            [("wave", "rms-wave", "false", 0), ("block", "rms-block", "true", reduce_lds(t, BLOCK))]
        {
            norm.part(part).add_variant("rms_norm", variant, &types, "rms_norm", &[whole, "false"], lds);
            // Newer compilers than clang 19 use up to 128.
            norm.max_vgprs((variant == "block" && t == ElementType::Bf16).then_some(112), None);
            norm.add_variant("add_rms_norm", variant, &types, "rms_norm", &[whole, "true"], lds);
            norm.max_vgprs(None, None);
            norm.part("layer").add_variant("layer_norm", variant, &types, "layer_norm", &[whole], lds);
        }
    }
    let mut group = table.of::<GroupNormArgs>(Family::Norm, BLOCK);
    for [t, w] in ElementType::WEIGHTED {
        let lds = reduce_lds(t, BLOCK);
        group.part("group").add_variant("group_norm", "", &[t, w], "group_norm", &[], lds);
        group.add_variant("group_norm", "parts", &[t, w], "group_norm_parts", &[], lds);
        group.add_variant("group_norm", "apply", &[t, w], "group_norm_apply", &[], lds);
    }
}

/// LDS for a loop of block reductions in the accumulator type of `t`: two buffers of two values per wave.
pub(crate) fn reduce_lds(t: ElementType, block: u32) -> u32 {
    4 * (block / 32) * if t == ElementType::F64 { 8 } else { 4 }
}

/// How many lanes of a wave process a short row; `None` if it takes several waves.
pub(crate) fn lanes_for(row: u64, pack: u32, wave: u32) -> Option<u32> {
    let chunks = row.div_ceil(u64::from(pack)).max(1);
    let lanes = chunks.next_power_of_two().min(u64::from(wave)) as u32;
    (chunks <= u64::from(lanes) * CACHED).then_some(lanes)
}

/// How many lanes of a block, in whole waves, process a row: as few as can keep it in registers.
fn team(row: u64, t: ElementType, shape: &Shape, wave: u32) -> u32 {
    let pack = pack_of(t, shape);
    // `row_cache` in the source.
    let cached = if t.bytes() as u32 * pack < 8 { 1 } else { CACHED };
    let lanes = row.div_ceil(u64::from(pack)).div_ceil(cached).next_power_of_two();
    lanes.clamp(u64::from(wave), u64::from(BLOCK)) as u32
}

/// Elements that the row kernels read at a time. They read f64 element by element.
fn pack_of(t: ElementType, shape: &Shape) -> u32 {
    if t == ElementType::F64 { 1 } else { shape.pack() }
}

/// Makes the launch of a row op, whose first type is that of the rows, and returns the number of rows and of lanes per row. A long
/// row takes a block, or with `teams` as few of its waves as keep it in registers.
pub(crate) fn row_launch(
    op: &str,
    types: &[ElementType],
    shape: &Shape,
    device: &Device,
    teams: bool,
) -> Result<(Launch, u64, u64), Refused> {
    let count = if shape.inner() == 0 { 0 } else { shape.count() / shape.inner() };
    let (row, t) = (shape.inner(), types[0]);
    let short = lanes_for(row, pack_of(t, shape), device.wave);
    let lanes = short.unwrap_or_else(|| if teams { team(row, t, shape, device.wave) } else { BLOCK });
    let instance = need(op, if short.is_some() { "wave" } else { "block" }, types)?;
    let launch = Launch::over(instance, count, u64::from(instance.block / lanes), device.row_blocks());
    Ok((launch, count, u64::from(lanes)))
}

/// Operands of a norm. `x`, `y`, `residual` and `sum` have the same shape; `weight` and `bias` have the size of its last
/// dimension.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Norm<'a> {
    pub x: OperandView<'a>,
    pub y: OperandView<'a>,
    pub weight: Option<OperandView<'a>>,
    pub bias: Option<OperandView<'a>>,
    /// For add_rms_norm only.
    pub residual: Option<OperandView<'a>>,
    /// For add_rms_norm only.
    pub sum: Option<OperandView<'a>>,
    pub eps: f64,
}

impl Norm<'_> {
    /// The common type of weight and bias; the type of x if there are none.
    fn parameter_type(&self, op: &str) -> Result<ElementType, Refused> {
        match (self.weight.map(|v| v.dtype), self.bias.map(|v| v.dtype)) {
            (Some(weight), Some(bias)) if weight != bias => {
                Err(Refused::NoKernel { op: op.to_owned(), types: vec![self.x.dtype, weight, bias] })
            }
            (weight, bias) => Ok(weight.or(bias).unwrap_or(self.x.dtype)),
        }
    }

    /// Whether weight and bias can be read in 16-byte packs.
    fn parameters_pack(&self) -> bool {
        let packs = |v: OperandView<'_>| v.strides.last() == Some(&1) && v.data.is_multiple_of(16);
        self.weight.is_none_or(packs) && self.bias.is_none_or(packs)
    }
}

fn address(view: Option<OperandView<'_>>) -> (u64, i64) {
    view.map_or((0, 0), |v| (v.data, v.strides.last().copied().unwrap_or(0)))
}

/// Prepares `rms_norm`, `add_rms_norm` or `layer_norm` over the last of `dims`.
pub fn prepare(
    op: &str,
    dims: &[u64],
    norm: &Norm<'_>,
    device: &Device,
) -> Result<(Launch, NormArgs), Refused> {
    let (residual, sum) = (norm.residual.unwrap_or(norm.x), norm.sum.unwrap_or(norm.y));
    let (mut shape, [x, residual, y, sum]) = rows(dims, 1, [norm.x, residual, norm.y, sum])?;
    if !norm.parameters_pack() {
        shape = shape.unpacked();
    }
    let (launch, rows, lanes) =
        row_launch(op, &[norm.x.dtype, norm.parameter_type(op)?], &shape, device, true)?;
    let ((weight, weight_stride), (bias, bias_stride)) = (address(norm.weight), address(norm.bias));
    let eps = norm.eps;
    let args =
        NormArgs { shape, x, residual, y, sum, weight, bias, weight_stride, bias_stride, rows, lanes, eps };
    Ok((launch, args))
}

/// Prepares group_norm of x\[b, c, ..\]. `groups` must divide `c`. If groups are few and large, a launch computes the moments of
/// their parts, and another normalises with them.
pub fn group(
    dims: &[u64],
    groups: u64,
    norm: &Norm<'_>,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let &[batch, channels, ref spatial @ ..] = dims else { return Err(Refused::Rank(dims.len())) };
    let types = [norm.x.dtype, norm.parameter_type("group_norm")?];
    let (mut shape, [x, y]) = elementwise(dims, [norm.x, norm.y])?;
    let spatial: u64 = spatial.iter().product();
    let contiguous = shape.rank() == 1 && x.stride[5] == 1 && y.stride[5] == 1;
    if !contiguous || !spatial.is_multiple_of(u64::from(shape.pack())) {
        shape = shape.unpacked();
    }
    let group_rows = if shape.count() == 0 { 0 } else { batch * groups };
    let ((weight, weight_stride), (bias, bias_stride)) = (address(norm.weight), address(norm.bias));
    let mut args = GroupNormArgs {
        shape,
        x,
        y,
        weight,
        bias,
        weight_stride,
        bias_stride,
        spatial: Divider::new(spatial.max(1)),
        groups,
        group_rows,
        channels: channels / groups.max(1),
        lanes: 0,
        eps: norm.eps,
        partial: 0,
        parts: 1,
        shares: 1,
    };
    let elements = shape.count() / group_rows.max(1);
    let parts = elements.div_ceil(GROUP_PART);
    // Enough blocks per group to fill the device, but at least two parts per block.
    let wanted = if device.tuning.is_by_row() { SHARES_BY_ROW } else { device.blocks(8) / group_rows.max(1) };
    let shares = wanted.min(parts / 2);
    let lanes = team(if shares < 2 { elements } else { GROUP_PART }, norm.x.dtype, &shape, device.wave);
    args.lanes = u64::from(lanes);
    let per_block = u64::from(BLOCK / lanes);
    if shares < 2 {
        let main = Launch::over(need("group_norm", "", &types)?, group_rows, per_block, device.row_blocks());
        return plan.add((main, args));
    }
    (args.parts, args.shares) = (parts, shares);
    let all = group_rows * parts;
    let main = Launch::over(need("group_norm", "parts", &types)?, all, per_block, device.row_blocks());
    let apply =
        Launch::over(need("group_norm", "apply", &types)?, group_rows * shares, 1, device.row_blocks());
    plan.workspace = all * MOMENTS * if norm.x.dtype == ElementType::F64 { 8 } else { 4 };
    plan.add_with(main, &args, &[offset_of!(GroupNormArgs, partial)])?;
    plan.add_with(apply, &args, &[offset_of!(GroupNormArgs, partial)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{device, view};

    #[test]
    fn large_groups_are_split_into_parts() {
        let plan = |elements: u64| {
            let strides = [elements as i64, elements as i64, 1];
            let x = view(&strides, ElementType::F32);
            let norm = Norm { x, y: x, weight: None, bias: None, residual: None, sum: None, eps: 1e-5 };
            let mut plan = Plan::default();
            group(&[1, 1, elements], 1, &norm, &device(), &mut plan).expect("a kernel");
            plan
        };
        let variants =
            |plan: &Plan| plan.steps().map(|step| step.launch.instance.variant).collect::<Vec<_>>();
        let args = |plan: &Plan| plan.args::<GroupNormArgs>(0).expect("a launch");
        let whole = plan(3 * GROUP_PART);
        assert_eq!(variants(&whole), [""]);
        assert_eq!((whole.workspace, args(&whole).parts), (0, 1));
        let split = plan(3 * GROUP_PART + 1);
        assert_eq!(variants(&split), ["parts", "apply"]);
        assert_eq!((args(&split).parts, args(&split).shares), (4, 2));
        assert_eq!(split.workspace, 4 * MOMENTS * 4);
    }
}
