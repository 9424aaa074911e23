//! Rotary position embedding: rope, rope_thd and rope_i, out of place and in place.
use crate::index::{Report, kind_of};
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::shape::{List, list, per_pack};
use crate::{
    Device, ElementType, Family, Launch, MAX_RANK, OperandView, Refused, Shape, StridedPointer, elementwise,
};

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of every rope kernel.
    pub struct RopeArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub cos: StridedPointer,
        pub sin: StridedPointer,
        pub x_partner: i64,
        pub y_partner: i64,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut rope = table.of::<RopeArgs>(Family::Rope, BLOCK);
    for types in ElementType::WEIGHTED {
        rope.add("rope", &types, "rope", &[]);
        rope.add_variant("rope", "pairs", &types, "rope_pairs", &[], 0);
    }
    let mut at = table.of::<RopeAtArgs>(Family::Rope, BLOCK);
    for types in ElementType::WEIGHTED {
        at.add_variant("rope", "at", &types, "rope_at", &[], 0);
    }
}

/// Operands of a rope. `x` and `y` have the shape `dims` = \[.., d\], with the leading dimensions in any order. `cos` and `sin`
/// have the same shape, except that the last dimension is d / 2. They have stride 0 along the heads, and along the batch if it
/// shares one table. Their addresses include the offset of `start`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Rope<'a> {
    pub x: OperandView<'a>,
    pub y: OperandView<'a>,
    pub cos: OperandView<'a>,
    pub sin: OperandView<'a>,
}

/// Prepares rope and rope_thd, which rotate element i with element i + d / 2.
pub fn halves(dims: &[u64], rope: &Rope<'_>, device: &Device) -> Result<(Launch, RopeArgs), Refused> {
    let (half, last) = half_of(dims, rope)?;
    let (x_step, y_step) = (rope.x.strides[last], rope.y.strides[last]);
    let partner = half as i64;
    apart(dims, rope, [(x_step, partner * x_step), (y_step, partner * y_step)], device)
}

/// Prepares rope_i, which rotates element 2i with element 2i + 1.
pub fn neighbours(dims: &[u64], rope: &Rope<'_>, device: &Device) -> Result<(Launch, RopeArgs), Refused> {
    let (half, last) = half_of(dims, rope)?;
    // A pair of f64 is one 16-byte access, whatever the pack size.
    let whole = |v: OperandView<'_>| v.dtype.bytes() < 8 || v.data.is_multiple_of(16);
    let even = |v: OperandView<'_>| v.strides[last] == 1 && v.strides[..last].iter().all(|s| s % 2 == 0);
    if ![rope.x, rope.y].into_iter().all(|v| even(v) && whole(v)) {
        let (x_step, y_step) = (rope.x.strides[last], rope.y.strides[last]);
        return apart(dims, rope, [(2 * x_step, x_step), (2 * y_step, y_step)], device);
    }
    let in_pairs = |v: OperandView<'_>| {
        let mut strides = list(v.strides)?;
        strides.iter_mut().for_each(|s| *s /= 2);
        strides[last] = 1;
        Ok(strides)
    };
    let (xs, ys) = (in_pairs(rope.x)?, in_pairs(rope.y)?);
    let pair = pair_type(rope.x.dtype)?;
    let x = OperandView { strides: &xs, dtype: pair, ..rope.x };
    let y = OperandView { strides: &ys, dtype: pair, ..rope.y };
    let instance = need("rope", "pairs", &[rope.x.dtype, table_type(rope)?])?;
    let (shape, [x, y, cos, sin]) = elementwise(&pairs(dims, half)?, [x, y, rope.cos, rope.sin])?;
    Ok((
        Launch::elementwise(instance, &shape, device),
        RopeArgs { shape, x, y, cos, sin, x_partner: 1, y_partner: 1 },
    ))
}

/// Prepares the general kernel. For x and for y, takes the step to the next pair and the distance between a pair's elements.
fn apart(
    dims: &[u64],
    rope: &Rope<'_>,
    [(x_step, x_partner), (y_step, y_partner)]: [(i64, i64); 2],
    device: &Device,
) -> Result<(Launch, RopeArgs), Refused> {
    let (half, last) = half_of(dims, rope)?;
    let with_step = |v: OperandView<'_>, step| {
        let mut strides = list(v.strides)?;
        strides[last] = step;
        Ok(strides)
    };
    let (xs, ys) = (with_step(rope.x, x_step)?, with_step(rope.y, y_step)?);
    let views =
        [OperandView { strides: &xs, ..rope.x }, OperandView { strides: &ys, ..rope.y }, rope.cos, rope.sin];
    let instance = need("rope", "", &[rope.x.dtype, table_type(rope)?])?;
    let (mut shape, [x, y, cos, sin]) = elementwise(&pairs(dims, half)?, views)?;
    let packs = i64::from(shape.pack());
    let whole = [half as i64, x_partner, y_partner].iter().all(|n| n % packs == 0);
    // The kernel reads both elements of a pair and both tables in packs.
    if !whole || cos.stride[5] != 1 || sin.stride[5] != 1 || x.stride[5] != 1 {
        shape = shape.unpacked();
    }
    Ok((
        Launch::elementwise(instance, &shape, device),
        RopeArgs { shape, x, y, cos, sin, x_partner, y_partner },
    ))
}

/// The type of both tables, which must be the same.
fn table_type(rope: &Rope<'_>) -> Result<ElementType, Refused> {
    let (cos, sin) = (rope.cos.dtype, rope.sin.dtype);
    if cos == sin {
        Ok(cos)
    } else {
        Err(Refused::NoKernel { op: "rope".into(), types: vec![rope.x.dtype, cos, sin] })
    }
}

/// d / 2 and the index of the last dimension.
fn half_of(dims: &[u64], rope: &Rope<'_>) -> Result<(u64, usize), Refused> {
    let views = [rope.x, rope.y, rope.cos, rope.sin];
    match dims.split_last() {
        Some((d, _)) if views.iter().all(|v| v.strides.len() == dims.len()) => Ok((d / 2, dims.len() - 1)),
        _ => Err(Refused::Rank(dims.len())),
    }
}

/// The dimensions with the last one replaced by the number of pairs, `half`.
fn pairs(dims: &[u64], half: u64) -> Result<List<u64>, Refused> {
    let mut dims = list(dims)?;
    *dims.last_mut().ok_or(Refused::Rank(0))? = half;
    Ok(dims)
}

/// The type with twice the size of `t`.
fn pair_type(t: ElementType) -> Result<ElementType, Refused> {
    match t.bytes() {
        2 => Ok(ElementType::B32),
        4 => Ok(ElementType::B64),
        8 => Ok(ElementType::B128),
        _ => Err(Refused::NoKernel { op: "rope".into(), types: vec![t] }),
    }
}

arguments! {
    /// Arguments of the kernel for table rows by position, and for partially rotated heads.
    pub struct RopeAtArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub cos: StridedPointer,
        pub sin: StridedPointer,
        pub positions: StridedPointer,
        pub place: StridedPointer,
        pub x_partner: i64,
        pub y_partner: i64,
        pub x_step: i64,
        pub y_step: i64,
        pub cos_row: i64,
        pub sin_row: i64,
        pub half: u64,
        pub bound: u64,
        pub error: u64,
        pub positions_kind: u32,
        pub op: u32,
        pub operand: u32,
        pub reserved: u32,
    }
}

/// The table rows of tokens.
#[derive(Clone, Copy, Debug)]
pub struct Positions<'a> {
    /// Whether there are positions. If not, the other fields are ignored, except that the strides must be
    /// zeros.
    pub given: bool,
    /// The positions along x: stride 0 along heads and features.
    pub view: OperandView<'a>,
    /// Only strides, like those of `view`: they give a position's index in its operand, for reports.
    pub place: OperandView<'a>,
    /// Strides between rows of cos and between rows of sin.
    pub rows: [i64; 2],
    /// Number of table rows.
    pub bound: u64,
}

impl Positions<'_> {
    /// Whether the rows of tables of type `table` can be read 16 bytes at a time.
    pub(crate) fn rows_in_packs(&self, table: ElementType) -> bool {
        !self.given || self.rows.iter().all(|step| step.unsigned_abs().is_multiple_of(per_pack(table)))
    }
    /// No positions, for an x of up to [`MAX_RANK`] dimensions.
    pub fn none(rank: usize) -> Positions<'static> {
        const ZEROS: [i64; MAX_RANK] = [0; MAX_RANK];
        let view = OperandView { data: 0, strides: &ZEROS[..rank.min(MAX_RANK)], dtype: ElementType::U8 };
        Positions { given: false, view, place: view, rows: [0; 2], bound: 0 }
    }
}

/// Arguments of [`at`] besides the operands.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// Number of rotated pairs per head, which is the number of table columns.
    pub half: u64,
    /// Whether pairs are (2i, 2i + 1) instead of (i, i + half).
    pub interleaved: bool,
    /// Whether the features that are not rotated are copied to y; then y must not be x.
    pub copies: bool,
    /// The table rows.
    pub positions: Positions<'a>,
    /// Where positions outside the tables are reported.
    pub report: Report,
}

/// Takes part in merging dimensions, but not in the choice of packs.
fn strides_only(strides: &[i64]) -> OperandView<'_> {
    OperandView { data: 0, strides, dtype: ElementType::U8 }
}

/// Prepares a rope with positions, or one that copies the features that are not rotated. The tables have
/// stride 0 along the tokens if there are positions.
pub fn at(
    dims: &[u64],
    rope: &Rope<'_>,
    at: &At<'_>,
    device: &Device,
) -> Result<(Launch, RopeAtArgs), Refused> {
    let (whole, last) = half_of(dims, rope)?;
    let rest = if at.copies { 2 * (whole - at.half.min(whole)) } else { 0 };
    let columns = at.half + rest;
    let (x_step, y_step) = (rope.x.strides[last], rope.y.strides[last]);
    let (across, partner) = if at.interleaved { (2, 1) } else { (1, at.half as i64) };
    let with_last = |view: OperandView<'_>, step| {
        let mut strides = list(view.strides)?;
        strides[last] = step;
        Ok(strides)
    };
    let (xs, ys) = (with_last(rope.x, across * x_step)?, with_last(rope.y, across * y_step)?);
    // Keeps the columns as a separate dimension.
    let mut apart = list(at.positions.place.strides)?;
    apart.iter_mut().for_each(|stride| *stride = 0);
    apart[last] = 1;
    let views = [
        OperandView { strides: &xs, ..rope.x },
        OperandView { strides: &ys, ..rope.y },
        rope.cos,
        rope.sin,
        strides_only(at.positions.view.strides),
        strides_only(at.positions.place.strides),
        strides_only(&apart),
    ];
    let instance = need("rope", "at", &[rope.x.dtype, table_type(rope)?])?;
    let (mut shape, [x, y, cos, sin, mut positions, place, _]) = elementwise(&pairs(dims, columns)?, views)?;
    positions.data = if at.positions.given { at.positions.view.data } else { 0 };
    let packs = i64::from(shape.pack());
    let [cos_row, sin_row] = at.positions.rows;
    // Either all of pairs, tables and copies are read in packs, or none.
    let starts = [columns as i64, at.half as i64, across - 1, cos_row, sin_row];
    let in_packs = starts.iter().all(|n| n % packs == 0);
    if !in_packs || [x, y, cos, sin].iter().any(|operand| operand.stride[5] != 1) {
        shape = shape.unpacked();
    }
    let args = RopeAtArgs {
        shape,
        x,
        y,
        cos,
        sin,
        positions,
        place,
        x_partner: partner * x_step,
        y_partner: partner * y_step,
        x_step,
        y_step,
        cos_row,
        sin_row,
        // With nothing to copy, every column is a pair.
        half: if rest == 0 { u64::MAX } else { at.half },
        bound: at.positions.bound,
        error: at.report.error,
        positions_kind: if at.positions.given { kind_of(at.positions.view.dtype)? } else { 0 },
        op: at.report.op,
        operand: at.report.operand,
        reserved: 0,
    };
    Ok((Launch::elementwise(instance, &shape, device), args))
}
