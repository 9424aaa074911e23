//! copy, fill and where, which move elements as bits; arange.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::shape::as_units;
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of copy.
    pub struct CopyArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
    }

    /// Arguments of fill.
    pub struct FillArgs {
        pub shape: Shape,
        pub y: StridedPointer,
        /// The element's bits, in the low-order bits.
        pub value: u64,
    }

    /// Arguments of arange.
    pub struct ArangeArgs {
        pub shape: Shape,
        pub y: StridedPointer,
        /// The first number: the bits of an f64, or an i64 for integers.
        pub start: u64,
        /// The distance between two numbers, as `start`.
        pub step: u64,
    }

    /// Arguments of where.
    pub struct WhereArgs {
        pub shape: Shape,
        pub cond: StridedPointer,
        pub on_true: StridedPointer,
        pub on_false: StridedPointer,
        pub y: StridedPointer,
    }
}

pub(crate) fn declare(table: &mut Table) {
    for t in ElementType::BITS {
        table.of::<CopyArgs>(Family::Copy, BLOCK).add("copy", &[t], "copy", &[]);
        table.of::<FillArgs>(Family::Copy, BLOCK).add("fill", &[t], "fill", &[]);
        for cond in ElementType::INDICES {
            table.of::<WhereArgs>(Family::Copy, BLOCK).add("where", &[cond, t], "where", &[]);
        }
    }
    for t in ElementType::FLOATS.into_iter().chain(ElementType::INTS) {
        table.of::<ArangeArgs>(Family::Copy, BLOCK).part("arange").add("arange", &[t], "arange", &[]);
    }
}

/// Prepares `y = x` for any type, including block types. Strides count elements, or blocks for a block type.
pub fn copy(
    dims: &[u64],
    x: OperandView<'_>,
    y: OperandView<'_>,
    device: &Device,
) -> Result<(Launch, CopyArgs), Refused> {
    let (unit, dims, [xs, ys]) = as_units(dims, [x, y])?;
    let views =
        [OperandView { strides: &xs, dtype: unit, ..x }, OperandView { strides: &ys, dtype: unit, ..y }];
    let instance = need("copy", "", &[unit])?;
    let (shape, [x, y]) = elementwise(&dims, views)?;
    Ok((Launch::elementwise(instance, &shape, device), CopyArgs { shape, x, y }))
}

/// Prepares `y = value`, where `value` is the element's bits.
pub fn fill(
    dims: &[u64],
    y: OperandView<'_>,
    value: u64,
    device: &Device,
) -> Result<(Launch, FillArgs), Refused> {
    let bits = bits_of("fill", y.dtype)?;
    let instance = need("fill", "", &[bits])?;
    let (shape, [y]) = elementwise(dims, [y])?;
    Ok((Launch::elementwise(instance, &shape, device), FillArgs { shape, y, value }))
}

/// Prepares numbers from `start`, `step` apart: bits of f64 for floats, i64 for integers.
pub fn arange(
    dims: &[u64],
    y: OperandView<'_>,
    [start, step]: [u64; 2],
    device: &Device,
) -> Result<(Launch, ArangeArgs), Refused> {
    let instance = need("arange", "", &[y.dtype])?;
    let (shape, [y]) = elementwise(dims, [y])?;
    let most = device.blocks(device.tuning.element_blocks());
    let launch = Launch::over(instance, shape.count(), u64::from(BLOCK), most);
    Ok((launch, ArangeArgs { shape, y, start, step }))
}

/// Prepares `y = cond != 0 ? on_true : on_false`.
pub fn select(
    dims: &[u64],
    cond: OperandView<'_>,
    [on_true, on_false, y]: [OperandView<'_>; 3],
    device: &Device,
) -> Result<(Launch, WhereArgs), Refused> {
    let instance = need("where", "", &[cond.dtype, bits_of("where", y.dtype)?])?;
    let (shape, [cond, on_true, on_false, y]) = elementwise(dims, [cond, on_true, on_false, y])?;
    Ok((Launch::elementwise(instance, &shape, device), WhereArgs { shape, cond, on_true, on_false, y }))
}

fn bits_of(op: &str, t: ElementType) -> Result<ElementType, Refused> {
    t.bits().ok_or_else(|| Refused::NoKernel { op: op.to_owned(), types: vec![t] })
}
