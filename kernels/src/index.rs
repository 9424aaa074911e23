//! index_select, index types, and the record of the first out-of-range index.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::shape::{as_units, leading};
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer};

const BLOCK: u32 = 256;

/// The first index fault of a stream, in memory that the host reads after waiting for the stream.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct ErrorRecord {
    /// 0 if there is no fault, 2 once the record is complete.
    pub state: u32,
    /// Copied from the launch's arguments.
    pub op: u32,
    /// Copied from the launch's arguments.
    pub operand: u32,
    reserved: u32,
    /// Position in the index operand.
    pub position: u64,
    /// The index at that position.
    pub index: i64,
    /// One past the largest valid index.
    pub bound: u64,
}

/// Where the kernels of a stream report an index fault, in device memory. The first thread to claim it writes the record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct ErrorSlot {
    /// 0 until a thread claims it. The host resets it once it has taken the record.
    pub claimed: u32,
    reserved: u32,
    /// Device address of an [`ErrorRecord`].
    pub record: u64,
}

impl ErrorSlot {
    /// An unclaimed slot for a record at this address.
    pub const fn new(record: u64) -> Self {
        ErrorSlot { claimed: 0, reserved: 0, record }
    }
}

arguments! {
    /// Arguments of index_select.
    pub struct IndexSelectArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub ids: u64,
        pub ids_stride: i64,
        pub bound: u64,
        pub error: u64,
        pub ids_kind: u32,
        pub op: u32,
        pub operand: u32,
        pub reserved: u32,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut index = table.of::<IndexSelectArgs>(Family::Index, BLOCK);
    for t in ElementType::BITS {
        index.add("index_select", &[t], "index_select", &[]);
    }
}

/// The number that identifies an index type in kernels.
pub(crate) fn kind_of(t: ElementType) -> Result<u32, Refused> {
    match t {
        ElementType::U8 => Ok(0),
        ElementType::U32 => Ok(1),
        ElementType::I32 => Ok(2),
        ElementType::I64 => Ok(3),
        other => Err(Refused::NoKernel { op: "an index".into(), types: vec![other] }),
    }
}

/// Where and how a kernel reports an out-of-range index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Device address of an [`ErrorSlot`]; 0 disables reporting.
    pub error: u64,
    /// The value to write as the record's op.
    pub op: u32,
    /// The value to write as the record's operand.
    pub operand: u32,
}

/// Prepares `y[.., k, ..] = x[.., ids[k], ..]` along `axis`. `dims` are those of y, `bound` is the size of x
/// along the axis, and `ids` is a one-dimensional view. Any type works, including block types.
pub fn select(
    dims: &[u64],
    axis: usize,
    bound: u64,
    [x, ids, y]: [OperandView<'_>; 3],
    report: Report,
    device: &Device,
) -> Result<(Launch, IndexSelectArgs), Refused> {
    if axis >= dims.len() {
        return Err(Refused::Rank(dims.len()));
    }
    let (unit, dims, [xs, ys]) = as_units(dims, [x, y])?;
    let views =
        [OperandView { strides: &xs, dtype: unit, ..x }, OperandView { strides: &ys, dtype: unit, ..y }];
    let instance = need("index_select", "", &[unit])?;
    let (shape, [x, y]) = leading(&dims, axis, views)?;
    let args = IndexSelectArgs {
        shape,
        x,
        y,
        ids: ids.data,
        ids_stride: ids.strides.last().copied().unwrap_or(1),
        bound,
        error: report.error,
        ids_kind: kind_of(ids.dtype)?,
        op: report.op,
        operand: report.operand,
        reserved: 0,
    };
    Ok((Launch::elementwise(instance, &shape, device), args))
}
