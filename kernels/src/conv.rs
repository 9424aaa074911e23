//! Convolutions and transposed convolutions, over two axes.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::matmul::{MMA_TILES, MMA_TYPES, mma_lds};
use crate::{Device, Divider, ElementType, Family, Instance, Launch, OperandView, Refused, StridedPointer};

const BLOCK: u32 = 256;
/// Number of output channels and of pixels in a tile, and its depth.
const TILE: u64 = 64;
const DEPTH: u32 = 32;
/// With fewer output channels per group, pixels, or terms per sum than this, most of a tile would be empty.
const MIN_CHANNELS: u64 = 16;
const MIN_PIXELS: u64 = 16;
const MIN_TERMS: u64 = 8;
/// Number of terms per step on matrix units; `MMA_DEPTH` in the source.
const STEP: u64 = 32;
/// Matrix units are used unless they would multiply more than this many times the number of terms.
const MAX_WASTE: u64 = 4;
/// Number of 16-bit elements per access.
const PACK: i64 = 8;

arguments! {
    /// The extents and options of one axis, as the kernels read them.
    pub struct ConvAxis {
        pub x: u64,
        pub y: u64,
        pub kernel: u64,
        pub padding: u64,
        pub dilation: u64,
        pub stride: Divider,
    }

    /// Arguments of every convolution kernel.
    pub struct ConvArgs {
        pub x: StridedPointer,
        pub weight: StridedPointer,
        pub y: StridedPointer,
        pub bias: u64,
        pub bias_stride: i64,
        pub bias_is_f32: u64,
        pub rows: ConvAxis,
        pub columns: ConvAxis,
        pub inputs: u64,
        pub outputs: Divider,
        pub channels: Divider,
        pub pixels: Divider,
        pub width: Divider,
        pub area: Divider,
        pub kernel_width: Divider,
        pub terms: u64,
        pub count: u64,
        pub images: u64,
        pub transposed: u64,
        pub groups: u64,
        pub positions: u64,
        pub steps: u64,
        pub term_stride: i64,
        pub by_tap: u64,
        pub x_packs: u64,
        pub weight_packs: u64,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut conv = table.of::<ConvArgs>(Family::Conv, BLOCK);
    for t in ElementType::FLOATS {
        let sum = if t == ElementType::F64 { 8 } else { 4 };
        let lds = 2 * DEPTH * (TILE as u32 + 4) * sum;
        conv.add_variant("conv", "tile", &[t], "conv_tile", &[], lds);
        conv.add_variant("conv", "direct", &[t], "conv_direct", &[], 0);
    }
    let mut conv = table.of::<ConvArgs>(Family::ConvMma, BLOCK);
    for t in MMA_TYPES {
        for (variant, tile) in MMA_TILES {
            conv.add_variant("conv", variant, &[t], "conv_mma", &[&tile.to_string()], mma_lds(tile));
        }
    }
}

/// The extents and options of one axis. Positions along it, including padding, fit 63 bits.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Axis {
    pub x: u64,
    pub y: u64,
    pub kernel: u64,
    pub stride: u64,
    pub padding: u64,
    pub dilation: u64,
}

/// A convolution: x\[batch, groups · inputs, rows, columns\], y\[batch, groups · outputs, rows, columns\],
/// and weight\[groups · outputs, inputs, rows, columns\] or, if it is transposed, weight\[groups · inputs,
/// outputs, rows, columns\]. The bias has one element per output channel, in the type of x or f32.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Conv<'a> {
    pub transposed: bool,
    pub batch: u64,
    pub groups: u64,
    pub inputs: u64,
    pub outputs: u64,
    pub rows: Axis,
    pub columns: Axis,
    pub x: OperandView<'a>,
    pub weight: OperandView<'a>,
    pub y: OperandView<'a>,
    pub bias: Option<OperandView<'a>>,
}

/// Prepares a convolution.
pub fn prepare(problem: &Conv<'_>, device: &Device) -> Result<(Launch, ConvArgs), Refused> {
    let &Conv { groups, inputs, outputs, rows, columns, x, weight, y, bias, .. } = problem;
    let product = |factors: &[u64]| {
        let all = factors.iter().try_fold(1u64, |all, factor| all.checked_mul(*factor));
        all.filter(|all| *all < 1 << 63).ok_or(Refused::Size)
    };
    let strides = |view: OperandView<'_>| match *view.strides {
        [a, b, c, d] => Ok([a, b, c, d]),
        ref other => Err(Refused::Rank(other.len())),
    };
    let [first, second, by_row, by_column] = strides(weight)?;
    // The stride of an axis with one element is meaningless.
    let by_row = if rows.kernel == 1 { 0 } else { by_row };
    let by_column = if columns.kernel == 1 { 0 } else { by_column };
    let times = |count: u64, stride: i64| (count as i64).wrapping_mul(stride);
    let weight_strides = match problem.transposed {
        true => [times(inputs, first), second, first, by_row, by_column],
        false => [times(outputs, first), first, second, by_row, by_column],
    };
    let (images, pixels) = (product(&[problem.batch, groups])?, product(&[rows.y, columns.y])?);
    let mut args = ConvArgs {
        x: StridedPointer::new(x.data, &strides(x)?),
        weight: StridedPointer::new(weight.data, &weight_strides),
        y: StridedPointer::new(y.data, &strides(y)?),
        bias: bias.map_or(0, |bias| bias.data),
        bias_stride: bias.and_then(|bias| bias.strides.last().copied()).unwrap_or(0),
        bias_is_f32: bias
            .map_or(0, |b| u64::from(b.dtype == ElementType::F32 && x.dtype != ElementType::F32)),
        rows: axis(rows),
        columns: axis(columns),
        inputs,
        outputs: Divider::new(outputs),
        channels: Divider::new(product(&[groups, outputs])?),
        pixels: Divider::new(pixels),
        width: Divider::new(columns.y),
        area: Divider::new(product(&[rows.kernel, columns.kernel])?),
        kernel_width: Divider::new(columns.kernel),
        terms: product(&[inputs, rows.kernel, columns.kernel])?,
        count: product(&[images, outputs, pixels])?,
        images,
        transposed: u64::from(problem.transposed),
        groups,
        positions: product(&[problem.batch, pixels])?,
        steps: 0,
        term_stride: 0,
        by_tap: 0,
        x_packs: 0,
        weight_packs: 0,
    };
    if let Ok((instance, tile)) = on_matrix(&mut args, x.dtype, device) {
        // Less than the number of elements, so this does not overflow.
        let tiles = outputs.div_ceil(tile) * args.positions.div_ceil(tile) * groups;
        return Ok((Launch::over(instance, tiles, 1, device.row_blocks()), args));
    }
    Ok((launch(&args, x.dtype, device)?, args))
}

/// Why a convolution does not use matrix units on a device that has them; `None` if it does.
pub fn not_on_matrix(mut args: ConvArgs, dtype: ElementType, device: &Device) -> Option<&'static str> {
    on_matrix(&mut args, dtype, device).err()
}

/// The kernel for matrix units and its tile, if using them pays off. Sets in `args` how they step through the
/// terms.
fn on_matrix(
    args: &mut ConvArgs,
    dtype: ElementType,
    device: &Device,
) -> Result<(&'static Instance, u64), &'static str> {
    if !MMA_TYPES.contains(&dtype) {
        return Err("matrix units need f16 or bf16");
    }
    if device.matrix.is_none() {
        return Err("there are no matrix units");
    }
    if args.transposed != 0 {
        return Err("matrix units do not support transposed convolutions");
    }
    let (outputs, by_row) = (args.outputs.by(), device.tuning.is_by_row());
    let positions = if by_row { args.pixels.by() } else { args.positions };
    if outputs < MIN_CHANNELS || positions < MIN_PIXELS || args.terms < MIN_TERMS {
        return Err("most of a matrix-unit tile would be empty");
    }
    // Positions along an axis have 32 bits in the kernel; one bit marks those that are outside.
    let far = |axis: &ConvAxis| {
        let reach = axis.x.saturating_add(axis.padding.saturating_mul(2));
        [reach, axis.kernel, axis.dilation, axis.stride.by()].into_iter().any(|n| n >= 1 << 31)
    };
    if far(&args.rows) || far(&args.columns) {
        return Err("matrix units need axes of fewer than 2^31 elements");
    }
    steps(args);
    if args.steps.saturating_mul(STEP) > args.terms.saturating_mul(MAX_WASTE) {
        return Err("matrix units would multiply mostly zeros: a group has few input channels");
    }
    let tiles = |size: u64| outputs.div_ceil(size) * positions.div_ceil(size) * args.groups;
    let [large, small] = MMA_TILES;
    // With few channels, a large tile would be half empty.
    let (variant, tile) = if outputs > small.1 && device.takes_large(tiles(large.1)) { large } else { small };
    let instance = crate::find("conv", variant, &[dtype]).ok_or("there is no such kernel")?;
    Ok((instance, tile))
}

/// Chooses how matrix units step through the terms. Steps over channels need one test per kernel element, and
/// read channels that are contiguous in memory 16 bytes at a time. Terms in the weight's own order are
/// contiguous in an ordinary weight, and no step is partly empty.
fn steps(args: &mut ConvArgs) {
    let (inputs, area) = (args.inputs, args.area.by());
    let [_, _, _, by_channel, by_row, by_column] = args.weight.stride;
    let run = run_of([(inputs, by_channel), (args.rows.kernel, by_row), (args.columns.kernel, by_column)]);
    let channels_last = by_channel == 1 || args.x.stride[3] == 1;
    let by_tap = area == 1 || run.is_none() || (channels_last && inputs >= STEP / 2);
    args.by_tap = by_tap.into();
    args.term_stride = if by_tap { by_channel } else { run.unwrap_or(0) };
    args.steps = if by_tap { area.saturating_mul(inputs.div_ceil(STEP)) } else { args.terms.div_ceil(STEP) };
    let count = if by_tap { inputs } else { args.terms };
    let [_, _, batch, channel, row, column] = args.x.stride;
    let images = args.images.checked_div(args.groups).unwrap_or(0);
    let across = [(images, batch), (args.rows.x, row), (args.columns.x, column)];
    args.x_packs = (by_tap && channel == 1 && in_packs(args.x.data, count, &across)).into();
    let [_, group, line, _, row, column] = args.weight.stride;
    let (rows, columns) = if by_tap { (args.rows.kernel, args.columns.kernel) } else { (1, 1) };
    let across = [(args.groups, group), (args.outputs.by(), line), (rows, row), (columns, column)];
    args.weight_packs = (args.term_stride == 1 && in_packs(args.weight.data, count, &across)).into();
}

/// Whether runs of `count` elements from an address on consist of whole aligned packs, given these extents
/// and strides between them.
fn in_packs(data: u64, count: u64, across: &[(u64, i64)]) -> bool {
    let aligned = |&(extent, stride): &(u64, i64)| extent == 1 || stride % PACK == 0;
    data.is_multiple_of(16) && count.is_multiple_of(PACK as u64) && across.iter().all(aligned)
}

/// The element stride, if these axes, outermost first, form a single run in memory.
fn run_of(axes: [(u64, i64); 3]) -> Option<i64> {
    let mut run: Option<(i64, u64)> = None;
    for (extent, stride) in axes.into_iter().rev().filter(|(extent, _)| *extent != 1) {
        run = match run {
            None => Some((stride, extent)),
            Some((step, count)) if stride == step.wrapping_mul(count as i64) => {
                Some((step, count.saturating_mul(extent)))
            }
            Some(_) => return None,
        };
    }
    Some(run.map_or(1, |(step, _)| step))
}

fn axis(of: Axis) -> ConvAxis {
    let Axis { x, y, kernel, stride, padding, dilation } = of;
    ConvAxis { x, y, kernel, padding, dilation, stride: Divider::new(stride) }
}

fn launch(args: &ConvArgs, dtype: ElementType, device: &Device) -> Result<Launch, Refused> {
    let (outputs, pixels) = (args.outputs.by(), args.pixels.by());
    if outputs >= MIN_CHANNELS && pixels >= MIN_PIXELS && args.terms >= MIN_TERMS {
        let instance = need("conv", "tile", &[dtype])?;
        // Less than the number of elements, so this does not overflow.
        let tiles = outputs.div_ceil(TILE) * pixels.div_ceil(TILE) * args.images;
        return Ok(Launch::over(instance, tiles, 1, device.row_blocks()));
    }
    let instance = need("conv", "direct", &[dtype])?;
    let most = device.blocks(device.tuning.element_blocks());
    Ok(Launch::over(instance, args.count, u64::from(BLOCK), most))
}
