//! l2_norm and gated_rms_norm over the last dimension; swiglu_clamped.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::norm::{reduce_lds, row_launch};
use crate::quant::kind;
use crate::{
    Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise, rows,
};

/// Threads per block; `GATED_BLOCK` in the source.
const BLOCK: u32 = 256;

arguments! {
    /// Arguments of l2_norm and gated_rms_norm.
    pub struct GatedArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub gate: StridedPointer,
        pub y: StridedPointer,
        pub weight: u64,
        pub weight_stride: i64,
        pub weight_kind: u64,
        pub rows: u64,
        pub lanes: u64,
        pub eps: f64,
    }

    /// Arguments of swiglu_clamped.
    pub struct ClampedArgs {
        pub shape: Shape,
        pub gate: StridedPointer,
        pub up: StridedPointer,
        pub y: StridedPointer,
        pub alpha: f64,
        pub limit: f64,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut gated = table.of::<GatedArgs>(Family::Gated, BLOCK);
    for (op, part, with_gate) in [("l2_norm", "l2", "false"), ("gated_rms_norm", "rms", "true")] {
        for t in ElementType::FLOATS {
            let norm = gated.part(part);
            norm.add_variant(op, "wave", &[t], "gated_norm", &["false", with_gate], 0);
            norm.add_variant(op, "block", &[t], "gated_norm", &["true", with_gate], reduce_lds(t, BLOCK));
        }
    }
    let mut clamped = table.of::<ClampedArgs>(Family::Gated, BLOCK);
    for t in ElementType::FLOATS {
        clamped.part("clamped").add("swiglu_clamped", &[t], "swiglu_clamped", &[]);
    }
}

/// Prepares `y = x / sqrt(Σx² + eps)` over the last of `dims`.
pub fn l2(
    dims: &[u64],
    [x, y]: [OperandView<'_>; 2],
    eps: f64,
    device: &Device,
) -> Result<(Launch, GatedArgs), Refused> {
    norm("l2_norm", dims, [x, x, y], None, eps, device)
}

/// Prepares `y = rms_norm(x) · weight · silu(gate)` over the last of `dims`; `weight` has the size of that dimension.
pub fn rms(
    dims: &[u64],
    operands: [OperandView<'_>; 3],
    weight: OperandView<'_>,
    eps: f64,
    device: &Device,
) -> Result<(Launch, GatedArgs), Refused> {
    norm("gated_rms_norm", dims, operands, Some(weight), eps, device)
}

fn norm(
    op: &str,
    dims: &[u64],
    [x, gate, y]: [OperandView<'_>; 3],
    weight: Option<OperandView<'_>>,
    eps: f64,
    device: &Device,
) -> Result<(Launch, GatedArgs), Refused> {
    let dtype = x.dtype;
    let (mut shape, [x, gate, y]) = rows(dims, 1, [x, gate, y])?;
    let packs = |w: OperandView<'_>| w.strides.last() == Some(&1) && w.data.is_multiple_of(16);
    if !weight.is_none_or(packs) {
        shape = shape.unpacked();
    }
    let (launch, rows, lanes) = row_launch(op, &[dtype], &shape, device, false)?;
    let (weight, weight_stride, weight_kind) = match weight {
        Some(w) => (w.data, w.strides.last().copied().unwrap_or(0), u64::from(kind(w.dtype)?)),
        None => (0, 0, 0),
    };
    Ok((launch, GatedArgs { shape, x, gate, y, weight, weight_stride, weight_kind, rows, lanes, eps }))
}

/// Prepares `swiglu_clamped` of views that all have the shape `dims`.
pub fn clamped(
    dims: &[u64],
    [gate, up, y]: [OperandView<'_>; 3],
    [alpha, limit]: [f64; 2],
    device: &Device,
) -> Result<(Launch, ClampedArgs), Refused> {
    let instance = need("swiglu_clamped", "", &[gate.dtype])?;
    let (shape, [gate, up, y]) = elementwise(dims, [gate, up, y])?;
    Ok((Launch::elementwise(instance, &shape, device), ClampedArgs { shape, gate, up, y, alpha, limit }))
}
