//! Attention. Many queries use tiles; few queries split the keys into parts, and a second kernel combines the parts.
use crate::instances::{Arguments, Table};
use crate::launch::need;
use crate::matmul::{MMA_TYPES, mma_lds};
use crate::{
    Device, Divider, ElementType, Family, Launch, MAX_RANK, OperandView, Plan, Refused, StridedPointer,
};
use std::mem::offset_of;

mod args;
mod decode;
pub mod ragged;

pub use args::AttentionArgs;

use decode::Decode;

const BLOCK: u32 = 256;
/// Largest width of queries and keys.
pub const MAX_HEAD: u64 = 576;
/// Largest width of values.
pub const MAX_VALUES: u64 = 512;
/// Largest width of either in kernels that hold a whole head, and largest width of the values of a block in
/// the others.
pub(crate) const WHOLE_HEAD: u64 = 256;
/// Largest number of query rows per key head for which the decode kernels are used.
pub(crate) const FEW_ROWS: u64 = 16;
/// The decode kernels count keys in 32 bits, even where they count a few beyond the last.
pub(crate) const DECODE_KEYS: u64 = 1 << 31;
/// Largest number of parts that the keys are split into; `COMBINED_PARTS` in the source.
const MAX_PARTS: u64 = 64;
/// Number of 32-bit counters of finished parts that a launch may use: one for each block of rows whose keys
/// are split.
pub const ARRIVALS: u64 = 4096;
/// Means no limit on one side of the window.
const OPEN: i64 = 1 << 61;

/// Bytes of LDS that the tiled kernel needs for values up to `most`: see `operand_slots` in the source.
pub(crate) fn tile_lds(t: ElementType, most: u32) -> u32 {
    let (bytes, whole) = if t == ElementType::F64 { (8, 32) } else { (4, 64) };
    let size = if most > 128 { whole / 2 } else { whole };
    let operands = (2 * 32 * (size + 4)).max(16 * (most + 4));
    (operands + size * (size + 4)) * bytes
}

/// Variants for matrix units: name, largest head size, rows per block. For the largest heads, two waves share
/// a row.
const MMA_VARIANTS: [(&str, u64, u64); 3] = [("mma64", 64, 128), ("mma128", 128, 128), ("mma256", 256, 64)];

/// Declares the kernels for matrix units: these variants of a function, each a separate part of the family.
/// `places` is the number of LDS bytes for the positions of keys.
pub(crate) fn declare_mma<A: Arguments>(
    table: &mut Table,
    function: &'static str,
    variants: [(&'static str, u64, u64); 3],
    places: u32,
) {
    let mut tiled = table.of::<A>(Family::AttentionMma, BLOCK);
    for t in MMA_TYPES {
        for (variant, most, _) in variants {
            let lds = mma_lds(most) + 4 + places;
            tiled.part(variant).add_variant("attention", variant, &[t], function, &[&most.to_string()], lds);
        }
    }
}

/// The variant for heads of this width and this type; `None` if there is none, or the device has no matrix
/// units.
pub(crate) fn on_matrix<'v>(
    variants: &'v [(&'static str, u64, u64)],
    t: ElementType,
    widest: u64,
    device: &Device,
) -> Option<&'v (&'static str, u64, u64)> {
    let has = device.matrix.is_some() && MMA_TYPES.contains(&t);
    variants.iter().find(|(_, most, _)| has && widest <= *most)
}

pub(crate) fn declare(table: &mut Table) {
    declare_mma::<AttentionArgs>(table, "attention_mma", MMA_VARIANTS, 0);
    let mut tiled = table.of::<AttentionArgs>(Family::Attention, BLOCK);
    for t in ElementType::FLOATS {
        for (variant, most) in [("head64", 64), ("head128", 128), ("head256", 256)] {
            tiled.part(variant).add_variant(
                "attention",
                variant,
                &[t],
                "attention",
                &[&most.to_string()],
                tile_lds(t, most),
            );
        }
    }
    Decode::declare(&mut table.of::<AttentionArgs>(Family::AttentionDecode, decode::BLOCK), false);
}

/// An attention call: q\[b, h, t, d\], k\[b, h_kv, s, d\], v\[b, h_kv, s, dv\], o\[b, h, t, dv\], mask\[b, h, t, s\], with any strides.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Attention<'a> {
    pub batch: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub t: u64,
    pub s: u64,
    pub d: u64,
    pub dv: u64,
    pub q: OperandView<'a>,
    pub k: OperandView<'a>,
    pub v: OperandView<'a>,
    pub o: OperandView<'a>,
    /// Either of q's type and added to the scores, or u8, where non-zero means visible.
    pub mask: Option<OperandView<'a>>,
    /// Alibi slopes\[h\] of q's type.
    pub slopes: Option<OperandView<'a>>,
    /// Sinks\[h\] of q's type.
    pub sinks: Option<OperandView<'a>>,
    /// Receives the logarithms of the denominators: f32 \[b, h, t\].
    pub lse: Option<OperandView<'a>>,
    pub scale: f64,
    pub causal: bool,
    /// How many keys a query sees to the left and to the right of its position.
    pub window: [Option<u64>; 2],
    pub softcap: Option<f64>,
}

/// Checks a call's sizes and types, and returns the arguments of a call in one part.
pub(crate) fn checked(call: &Attention<'_>) -> Result<AttentionArgs, Refused> {
    for (what, got, max) in
        [("the head size", call.d, MAX_HEAD), ("the width of the values", call.dv, MAX_VALUES)]
    {
        if got > max {
            return Err(Refused::Limit { what, got, max });
        }
    }
    let max = u64::from(u32::MAX);
    for (what, got) in [("t", call.t), ("s", call.s), ("the number of heads", call.heads)] {
        if got >= max {
            return Err(Refused::Limit { what, got, max });
        }
    }
    let t = call.q.dtype;
    let mask = call.mask.map(|v| v.dtype).filter(|mask| *mask != t && *mask != ElementType::U8);
    let slopes = call.slopes.map(|v| v.dtype).filter(|slopes| *slopes != t);
    let sinks = call.sinks.map(|v| v.dtype).filter(|sinks| *sinks != t);
    let lse = call.lse.map(|v| v.dtype).filter(|lse| *lse != ElementType::F32);
    if let Some(other) = mask.or(slopes).or(sinks).or(lse) {
        return Err(Refused::NoKernel { op: "attention".into(), types: vec![t, other] });
    }
    arguments(call)
}

/// Maximum number of keys of all texts for which the rows of a key head are computed by blocks of their own, so that each block's path is short.
/// The keys are then read once for each row, but from the cache.
const SHORT_KEYS: u64 = 3072;

/// Whether these texts have so few keys.
pub(crate) fn is_short(texts: u64, keys: u64) -> bool {
    texts.saturating_mul(keys) <= SHORT_KEYS
}

/// Prepares an attention call. `kv_heads` must divide `heads`.
pub fn prepare(call: &Attention<'_>, device: &Device, plan: &mut Plan) -> Result<(), Refused> {
    let (t, mut args) = (call.q.dtype, checked(call)?);
    let rows = call.t.checked_mul(args.group).ok_or(Refused::Size)?;
    let heads = call.batch.checked_mul(call.kv_heads).ok_or(Refused::Size)?;
    let widest = call.d.max(call.dv);
    let by_row = device.tuning.is_by_row();
    let few = (rows <= FEW_ROWS || by_row) && widest <= WHOLE_HEAD && call.s < DECODE_KEYS;
    if let Some(&(variant, _, together)) = on_matrix(&MMA_VARIANTS, t, widest, device).filter(|_| !few) {
        let tiles = rows.div_ceil(together).checked_mul(heads).ok_or(Refused::Size)?;
        let main = Launch::over(need("attention", variant, &[t])?, tiles, 1, u64::MAX);
        return plan.add((main, args));
    }
    if !few {
        let (variant, size) = tile(t, call.dv);
        args.value_parts = value_parts(call.dv);
        let tiles = rows.div_ceil(size).checked_mul(heads).and_then(|n| n.checked_mul(args.value_parts));
        let tiles = tiles.ok_or(Refused::Size)?;
        let main = Launch::over(need("attention", variant, &[t])?, tiles, 1, u64::MAX);
        return plan.add((main, args));
    }
    let single = rows == 1 || call.t == 1 && is_short(call.batch, visible_keys(call, &args));
    let kernel = Decode::of(t, widest, single && !by_row);
    let blocks = rows.div_ceil(kernel.rows).checked_mul(heads).ok_or(Refused::Size)?;
    args.splits = if by_row { 1 } else { parts(visible_keys(call, &args), blocks, device) };
    decode::divide(&mut args, t, rows, [rows.div_ceil(kernel.rows), blocks])?;
    let main = Launch::over(need("attention", kernel.variant, &[t])?, args.work, 1, u64::MAX);
    args.at_once = main.grid[0].into();
    plan.workspace = partial_bytes(t, call.dv, rows * heads, args.splits)?;
    add_decode(main, &args, (args.splits, 0), plan)
}

/// Adds a launch with few queries. The arguments of attention begin at this byte of `args`. If the keys are
/// split, the kernel needs the workspace and counters.
fn add_decode<A: Arguments>(
    main: Launch,
    args: &A,
    (splits, attention): (u64, usize),
    plan: &mut Plan,
) -> Result<(), Refused> {
    if splits == 1 {
        return plan.add_with(main, args, &[]);
    }
    plan.add_with(main, args, &[attention + offset_of!(AttentionArgs, partial)])?;
    plan.count_in::<A>(attention + offset_of!(AttentionArgs, arrivals));
    Ok(())
}

/// The tiled kernel for values of a width, and its rows per block. Keys of any width pass through LDS in pieces; the values
/// determine the registers.
pub(crate) fn tile(t: ElementType, dv: u64) -> (&'static str, u64) {
    let variant = match dv {
        0..=64 => "head64",
        65..=128 => "head128",
        _ => "head256",
    };
    (variant, if t == ElementType::F64 { 32 } else { 64 } / if dv > 128 { 2 } else { 1 })
}

/// Number of parts into which a tiled kernel splits values of this width.
pub(crate) fn value_parts(dv: u64) -> u64 {
    dv.div_ceil(WHOLE_HEAD).max(1)
}

/// Bytes of the partial results of this many rows; 0 if the keys are not split.
pub(crate) fn partial_bytes(t: ElementType, dv: u64, rows: u64, splits: u64) -> Result<u64, Refused> {
    if splits == 1 {
        return Ok(0);
    }
    let bytes = (dv + 2) * if t == ElementType::F64 { 8 } else { 4 };
    rows.checked_mul(splits * bytes).ok_or(Refused::Size)
}

/// An absent operand.
const NO_OPERAND: StridedPointer = StridedPointer { data: 0, stride: [0; MAX_RANK] };

fn arguments(call: &Attention<'_>) -> Result<AttentionArgs, Refused> {
    let operand = |v: OperandView<'_>| match v.strides.len() {
        4 => Ok(StridedPointer::new(v.data, v.strides)),
        other => Err(Refused::Rank(other)),
    };
    let side = |limit: Option<u64>| limit.map_or(OPEN, |n| i64::try_from(n).unwrap_or(OPEN).min(OPEN));
    let right = side(call.window[1]);
    let mask_kind = match call.mask {
        None => 0,
        Some(mask) if mask.dtype == ElementType::U8 => 2,
        Some(_) => 1,
    };
    Ok(AttentionArgs {
        q: operand(call.q)?,
        k: operand(call.k)?,
        v: operand(call.v)?,
        o: operand(call.o)?,
        mask: call.mask.map_or(Ok(NO_OPERAND), operand)?,
        slopes: call.slopes.map_or(0, |v| v.data),
        slope_stride: call.slopes.and_then(|v| v.strides.last().copied()).unwrap_or(0),
        batch: call.batch,
        kv_heads: call.kv_heads,
        group: call.heads / call.kv_heads.max(1),
        t: call.t,
        s: call.s,
        d: call.d,
        left: side(call.window[0]),
        right: if call.causal { right.min(0) } else { right },
        scale: call.scale,
        softcap: call.softcap.unwrap_or(0.0),
        mask_kind,
        partial: 0,
        arrivals: 0,
        splits: 1,
        dv: call.dv,
        value_parts: 1,
        sinks: call.sinks.map_or(0, |v| v.data),
        sink_stride: call.sinks.and_then(|v| v.strides.last().copied()).unwrap_or(0),
        lse: call.lse.map_or(NO_OPERAND, |v| StridedPointer::new(v.data, v.strides)),
        flags: 0,
        work: 0,
        at_once: 0,
        by_splits: Divider::new(1),
        by_blocks: Divider::new(1),
        by_heads: Divider::new(1),
        by_group: Divider::new(1),
        by_rows: Divider::new(1),
    })
}

/// Upper bound on the number of keys that any query sees.
pub(crate) fn visible_keys(call: &Attention<'_>, args: &AttentionArgs) -> u64 {
    let reach = args.left.saturating_add(args.right).max(0) as u64;
    call.s.min(reach.saturating_add(call.t))
}

/// Number of parts to split the keys into: enough to fill the device, none too short, and such that the last
/// round of blocks is nearly as full as the others. Returns 1 if there would be more blocks sharing parts
/// than counters.
pub(crate) fn parts(keys: u64, blocks: u64, device: &Device) -> u64 {
    if blocks > ARRIVALS {
        return 1;
    }
    let at_once = device.blocks(device.tuning.decode_blocks());
    let most = (keys / device.tuning.decode_keys()).clamp(1, MAX_PARTS);
    // The time of all rounds, each as long as a part, in units of 1/1024 of the time for all keys.
    let time = |parts: u64| blocks.saturating_mul(parts).div_ceil(at_once).saturating_mul(1024) / parts;
    let least = (1..=most).map(time).min().unwrap_or(0);
    (1..=most).find(|parts| time(*parts) <= least + least / 16).unwrap_or(1)
}
