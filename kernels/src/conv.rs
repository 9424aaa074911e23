//! Convolutions and transposed convolutions, over two axes.
use crate::instances::{Arguments, Table};
use crate::launch::need;
use crate::{Device, Divider, ElementType, Family, Launch, OperandView, Refused, StridedPointer};

const BLOCK: u32 = 256;
/// Output channels, and pixels, of a tile, and its depth.
const TILE: u64 = 64;
const DEPTH: u32 = 32;
/// With fewer output channels in a group, pixels, or terms in a sum than this, most of a tile would be empty.
const MIN_CHANNELS: u64 = 16;
const MIN_PIXELS: u64 = 16;
const MIN_TERMS: u64 = 8;

/// The extents and options of one axis, as the kernels read them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ConvAxis {
    pub x: u64,
    pub y: u64,
    pub kernel: u64,
    pub padding: u64,
    pub dilation: u64,
    pub stride: Divider,
}

/// Arguments of every convolution kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
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
}

impl Arguments for ConvArgs {
    const NAME: &'static str = "ConvArgs";
}

pub(crate) fn declare(table: &mut Table) {
    let mut conv = table.of::<ConvArgs>(Family::Conv, BLOCK);
    for t in ElementType::FLOATS {
        let sum = if t == ElementType::F64 { 8 } else { 4 };
        let lds = 2 * DEPTH * (TILE as u32 + 4) * sum;
        conv.add_variant("conv", "tile", &[t], "conv_tile", &[], lds);
        conv.add_variant("conv", "direct", &[t], "conv_direct", &[], 0);
    }
}

/// The extents and options of one axis. Positions along it fit 63 bits, with padding.
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

/// A convolution: x\[batch, groups · inputs, rows, columns\], y\[batch, groups · outputs, rows, columns\], and
/// weight\[groups · outputs, inputs, rows, columns\] or, if it is transposed, weight\[groups · inputs, outputs, rows, columns\].
/// The bias has an element for each output channel, and the type of x or f32.
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
    let times = |count: u64, stride: i64| (count as i64).wrapping_mul(stride);
    let weight_strides = match problem.transposed {
        true => [times(inputs, first), second, first, by_row, by_column],
        false => [times(outputs, first), first, second, by_row, by_column],
    };
    let (images, pixels) = (product(&[problem.batch, groups])?, product(&[rows.y, columns.y])?);
    let args = ConvArgs {
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
    };
    Ok((launch(&args, x.dtype, device)?, args))
}

fn axis(of: Axis) -> ConvAxis {
    let Axis { x, y, kernel, stride, padding, dilation } = of;
    ConvAxis { x, y, kernel, padding, dilation, stride: Divider::new(stride) }
}

fn launch(args: &ConvArgs, dtype: ElementType, device: &Device) -> Result<Launch, Refused> {
    let (outputs, pixels) = (args.outputs.by(), args.pixels.by());
    if outputs >= MIN_CHANNELS && pixels >= MIN_PIXELS && args.terms >= MIN_TERMS {
        let instance = need("conv", "tile", &[dtype])?;
        // Fewer than elements, so this does not overflow.
        let tiles = outputs.div_ceil(TILE) * pixels.div_ceil(TILE) * args.images;
        return Ok(Launch::over(instance, tiles, 1, device.row_blocks()));
    }
    let instance = need("conv", "direct", &[dtype])?;
    let most = device.blocks(device.tuning.element_blocks());
    Ok(Launch::over(instance, args.count, u64::from(BLOCK), most))
}
