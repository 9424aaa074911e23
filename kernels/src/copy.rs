//! copy, fill and where. They move elements as bits.
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
