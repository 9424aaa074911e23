//! Norm of heads, followed by rotation.
use crate::index::{Report, kind_of};
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::rope::Positions;
use crate::shape::{list, per_pack};
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of qk_norm_rope.
    pub struct QkNormRopeArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub cos: StridedPointer,
        pub sin: StridedPointer,
        pub positions: StridedPointer,
        pub place: StridedPointer,
        pub weight: u64,
        pub weight_step: i64,
        pub x_step: i64,
        pub y_step: i64,
        pub cos_step: i64,
        pub sin_step: i64,
        pub cos_row: i64,
        pub sin_row: i64,
        pub d: u64,
        pub half: u64,
        pub interleaved: u64,
        pub weight_is_f32: u64,
        pub tables_are_f32: u64,
        pub rows: u64,
        pub lanes: u64,
        pub eps: f64,
        pub bound: u64,
        pub error: u64,
        pub positions_kind: u32,
        pub op: u32,
        pub operand: u32,
        pub reserved: u32,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut heads = table.of::<QkNormRopeArgs>(Family::QkNormRope, BLOCK);
    for t in ElementType::FLOATS {
        heads.add("qk_norm_rope", &[t], "qk_norm_rope", &[]);
        if t != ElementType::F64 {
            heads.add_variant("qk_norm_rope", "packs", &[t], "qk_norm_rope_packs", &[], 0);
        }
    }
}

/// How many lanes share a head that is read in packs of 16 bytes: one for each two packs that are rotated together, and one for each
/// other pack. `None` if it cannot be read so, or if a wave does not suffice.
pub(crate) fn lanes_of_packs(t: ElementType, d: u64, half: u64, device: &Device) -> Option<u64> {
    let n = per_pack(t);
    let whole = t != ElementType::F64 && d.is_multiple_of(n) && half.is_multiple_of(n);
    let lanes = (d / n).checked_sub(half / n)?.max(1).next_power_of_two();
    (whole && lanes <= u64::from(device.wave)).then_some(lanes)
}

/// Operands of qk_norm_rope. `x` and `y` have the shape `dims` = \[b, t, h, d\]; the tables have the same
/// shape with the last dimension replaced by the number of pairs. Their stride is 0 along the heads, along
/// the batch if it shares one table, and along the tokens if there are positions.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct QkNormRope<'a> {
    pub x: OperandView<'a>,
    pub weight: OperandView<'a>,
    pub cos: OperandView<'a>,
    pub sin: OperandView<'a>,
    pub positions: Positions<'a>,
    pub y: OperandView<'a>,
    /// Number of rotated pairs per head.
    pub half: u64,
    /// Whether pairs are (2i, 2i + 1) instead of (i, i + half).
    pub interleaved: bool,
    pub eps: f64,
    pub report: Report,
}

/// Prepares qk_norm_rope.
pub fn prepare(
    dims: &[u64],
    call: &QkNormRope<'_>,
    device: &Device,
) -> Result<(Launch, QkNormRopeArgs), Refused> {
    let (Some((&d, heads)), t) = (dims.split_last(), call.x.dtype) else { return Err(Refused::Rank(0)) };
    let single = |view: OperandView<'_>| match view.dtype {
        same if same == t => Ok(0),
        ElementType::F32 => Ok(1),
        other => Err(Refused::NoKernel { op: "qk_norm_rope".into(), types: vec![t, other] }),
    };
    if call.cos.dtype != call.sin.dtype {
        let types = vec![t, call.cos.dtype, call.sin.dtype];
        return Err(Refused::NoKernel { op: "qk_norm_rope".into(), types });
    }
    let views = [call.x, call.y, call.cos, call.sin, call.positions.view, call.positions.place];
    let (mut leading, mut steps) = ([const { crate::shape::List::new_const() }; 6], [0; 6]);
    for ((view, leading), step) in views.iter().zip(&mut leading).zip(&mut steps) {
        *leading = list(view.strides)?;
        *step = leading.pop().ok_or(Refused::Rank(0))?;
    }
    let of_heads: [OperandView<'_>; 6] =
        std::array::from_fn(|i| OperandView { strides: &leading[i], ..views[i] });
    let (shape, [x, y, cos, sin, positions, place]) = elementwise(heads, of_heads)?;
    let rows = if d == 0 { 0 } else { shape.count() };
    let at = &call.positions;
    let aligned =
        [call.x, call.y, call.cos, call.sin, call.weight].into_iter().all(|view| view.in_full_packs());
    let (variant, lanes) = match lanes_of_packs(t, d, call.half, device) {
        Some(lanes) if aligned && at.rows_in_packs(call.cos.dtype) => ("packs", lanes),
        // About two pairs per lane.
        _ => ("", (d / 4).max(1).next_power_of_two().min(u64::from(device.wave))),
    };
    let instance = need("qk_norm_rope", variant, &[t])?;
    let launch = Launch::over(instance, rows, u64::from(BLOCK) / lanes, device.row_blocks());
    let args = QkNormRopeArgs {
        shape,
        x,
        y,
        cos,
        sin,
        positions,
        place,
        weight: call.weight.data,
        weight_step: call.weight.strides.last().copied().unwrap_or(0),
        x_step: steps[0],
        y_step: steps[1],
        cos_step: steps[2],
        sin_step: steps[3],
        cos_row: at.rows[0],
        sin_row: at.rows[1],
        d,
        half: call.half,
        interleaved: u64::from(call.interleaved),
        weight_is_f32: single(call.weight)?,
        tables_are_f32: single(call.cos)?,
        rows,
        lanes,
        eps: call.eps,
        bound: at.bound,
        error: call.report.error,
        positions_kind: if at.given { kind_of(at.view.dtype)? } else { 0 },
        op: call.report.op,
        operand: call.report.operand,
        reserved: 0,
    };
    Ok((launch, args))
}
