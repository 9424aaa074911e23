//! Blocks: quantize, dequantize, and lookup of rows in a quantized table.
use crate::element_type::BlockFormat;
use crate::index::{Report, kind_of};
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::shape::{List, list};
use crate::{
    Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise, rows,
};

const BLOCK: u32 = 256;
/// Lanes per block of `quantize`; `LANES` in the source.
const LANES: u32 = 8;
/// Number of values that a lane decodes at a time.
const PART: u64 = 8;

arguments! {
    /// Arguments of quantize.
    pub struct QuantizeArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub x_stride: i64,
    }

    /// Arguments of dequantize.
    pub struct DequantizeArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub y_stride: i64,
    }

    /// Arguments of qembedding.
    pub struct QEmbeddingArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub y_stride: i64,
        pub ids: u64,
        pub ids_stride: i64,
        pub bound: u64,
        pub error: u64,
        pub ids_kind: u32,
        pub op: u32,
        pub operand: u32,
        /// The output's kind.
        pub y_kind: u32,
    }
}

pub(crate) fn declare(table: &mut Table) {
    for format in BlockFormat::ALL {
        let b = [ElementType::Block(format)];
        if format.encodes() {
            table.of::<QuantizeArgs>(Family::Quant, BLOCK).add("quantize", &b, "quantize", &[]);
        }
        table.of::<DequantizeArgs>(Family::Quant, BLOCK).add("dequantize", &b, "dequantize", &[]);
        table.of::<QEmbeddingArgs>(Family::Quant, BLOCK).add("qembedding", &b, "qembedding", &[]);
    }
}

/// A float type as a value: `FloatKind` in the source.
pub(crate) fn kind(t: ElementType) -> Result<u32, Refused> {
    match t {
        ElementType::F16 => Ok(0),
        ElementType::Bf16 => Ok(1),
        ElementType::F32 => Ok(2),
        ElementType::F64 => Ok(3),
        other => Err(Refused::NoKernel { op: "decoding".into(), types: vec![other] }),
    }
}

/// Strides that step over whole blocks of a float view, and the view's element stride.
fn by_block(view: OperandView<'_>, block: ElementType) -> Result<(List<i64>, i64), Refused> {
    let mut strides = list(view.strides)?;
    let step = strides.last().copied().ok_or(Refused::Rank(0))?;
    if let Some(last) = strides.last_mut() {
        *last = step.checked_mul(block.values() as i64).ok_or(Refused::Size)?;
    }
    Ok((strides, step))
}

/// A launch of a kernel that decodes blocks of type `block`.
fn decoding(
    instance: &'static crate::Instance,
    shape: &Shape,
    block: ElementType,
    device: &Device,
) -> Result<Launch, Refused> {
    let parts = shape.count().checked_mul(block.values() / PART).ok_or(Refused::Size)?;
    Ok(Launch::over(instance, parts, u64::from(instance.block), device.row_blocks()))
}

/// Prepares quantization of f32 `x` to blocks `y`. `dims` count blocks along the last dimension. The strides of `y` count blocks;
/// those of `x` count elements.
pub fn quantize(
    dims: &[u64],
    x: OperandView<'_>,
    y: OperandView<'_>,
    device: &Device,
) -> Result<(Launch, QuantizeArgs), Refused> {
    if x.dtype != ElementType::F32 {
        return Err(Refused::NoKernel { op: "quantize".into(), types: vec![x.dtype, y.dtype] });
    }
    let instance = need("quantize", "", &[y.dtype])?;
    let (strides, x_stride) = by_block(x, y.dtype)?;
    let (shape, [x, y]) = elementwise(dims, [OperandView { strides: &strides, ..x }, y])?;
    let launch =
        Launch::over(instance, shape.count(), u64::from(instance.block / LANES), device.row_blocks());
    Ok((launch, QuantizeArgs { shape, x, y, x_stride }))
}

/// Prepares dequantization of blocks `x` to f32 `y`. `dims` count blocks along the last dimension.
pub fn dequantize(
    dims: &[u64],
    x: OperandView<'_>,
    y: OperandView<'_>,
    device: &Device,
) -> Result<(Launch, DequantizeArgs), Refused> {
    if y.dtype != ElementType::F32 {
        return Err(Refused::NoKernel { op: "dequantize".into(), types: vec![x.dtype, y.dtype] });
    }
    let (instance, block) = (need("dequantize", "", &[x.dtype])?, x.dtype);
    let (strides, y_stride) = by_block(y, block)?;
    let (shape, [x, y]) = elementwise(dims, [x, OperandView { strides: &strides, ..y }])?;
    Ok((decoding(instance, &shape, block, device)?, DequantizeArgs { shape, x, y, y_stride }))
}

/// Prepares `y[i] = table[ids[i]]`. `table` is \[bound, blocks\] in blocks, `ids` is one-dimensional of size `count`, and `y` is
/// \[count, blocks · values\], of any float type.
pub fn embedding(
    [count, blocks, bound]: [u64; 3],
    [table, ids, y]: [OperandView<'_>; 3],
    report: Report,
    device: &Device,
) -> Result<(Launch, QEmbeddingArgs), Refused> {
    let (instance, block) = (need("qembedding", "", &[table.dtype])?, table.dtype);
    let (y_kind, (strides, y_stride)) = (kind(y.dtype)?, by_block(y, block)?);
    let (shape, [x, y]) = rows(&[count, blocks], 2, [table, OperandView { strides: &strides, ..y }])?;
    let args = QEmbeddingArgs {
        shape,
        x,
        y,
        y_stride,
        ids: ids.data,
        ids_stride: ids.strides.last().copied().unwrap_or(1),
        bound,
        error: report.error,
        ids_kind: kind_of(ids.dtype)?,
        op: report.op,
        operand: report.operand,
        y_kind,
    };
    Ok((decoding(instance, &shape, block, device)?, args))
}
