//! Attention over sequences of different lengths, whose keys are concatenated or in the blocks of a cache.
//! The kernels are those of [`crate::attention`]; they read on the device where each sequence begins and
//! ends.
use super::decode::{self, Decode};
use crate::attention::{self, Attention, AttentionArgs, DECODE_KEYS, FEW_ROWS, WHOLE_HEAD};
use crate::index::{Report, kind_of};
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{Device, ElementType, Family, Launch, OperandView, Plan, Refused};
use bytemuck::Zeroable;
use std::mem::offset_of;

const BLOCK: u32 = 256;
/// The division by a block's number of keys is exact below this.
const MAX_KEYS: u64 = 1 << 31;
/// The kernels use 32-bit block numbers.
const MAX_BLOCKS: u64 = 1 << 32;

arguments! {
    /// Arguments of the kernels.
    pub struct RaggedArgs {
        pub attention: AttentionArgs,
        pub cu_q: u64,
        pub cu_k: u64,
        pub lengths: u64,
        pub table: u64,
        pub cu_q_step: i64,
        pub cu_k_step: i64,
        pub lengths_step: i64,
        pub table_row: i64,
        pub table_step: i64,
        pub sequences: u64,
        pub blocks: u64,
        pub block: u64,
        pub least: u64,
        pub checkers: u64,
        pub error: u64,
        pub block_magic: u32,
        pub block_shift: u32,
        pub index_kind: u32,
        pub op_of_queries: u32,
        pub op_of_keys: u32,
        pub op_of_table: u32,
    }
}

/// Tiled kernels: variant, part of the family, largest width of values.
const TILES: [(&str, &str, u32); 3] = [
    ("ragged_head64", "ragged64", 64),
    ("ragged_head128", "ragged128", 128),
    ("ragged_head256", "ragged256", 256),
];
/// Variants for matrix units: name and part of the family, largest head size, rows per block.
const MMA_VARIANTS: [(&str, u64, u64); 3] =
    [("ragged_mma64", 64, 128), ("ragged_mma128", 128, 128), ("ragged_mma256", 256, 64)];

pub(crate) fn declare(table: &mut Table) {
    // Two tiles of `MMA_KEYS` positions of 8 bytes: `places` in the source.
    attention::declare_mma::<RaggedArgs>(table, "ragged_mma", MMA_VARIANTS, 2 * 32 * 8);
    let mut tiled = table.of::<RaggedArgs>(Family::Attention, BLOCK);
    for t in ElementType::FLOATS {
        for (variant, part, most) in TILES {
            let (lds, width) = (attention::tile_lds(t, most), most.to_string());
            tiled.part(part).add_variant("attention", variant, &[t], "attention_ragged", &[&width], lds);
        }
    }
    Decode::declare(&mut table.of::<RaggedArgs>(Family::AttentionDecode, decode::BLOCK), true);
}

/// Where the keys and values of the sequences are.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'a> {
    /// k\[m, h_kv, d\] and v\[m, h_kv, dv\], whose rows are between two entries of `cu_k`, u32.
    SideBySide {
        /// One entry more than there are sequences.
        cu_k: OperandView<'a>,
        /// `m`
        rows: u64,
    },
    /// k\[blocks, block, h_kv, d\] and v\[blocks, block, h_kv, dv\].
    Blocks {
        /// The blocks of each sequence, of an index type: \[b, width\].
        table: OperandView<'a>,
        /// Number of keys of each sequence, of the same type: \[b\].
        lengths: OperandView<'a>,
        /// Number of entries in a row of the table.
        width: u64,
        /// Number of blocks in the cache.
        blocks: u64,
        /// Number of keys per block.
        block: u64,
    },
}

/// A call: q\[n, h, d\] and o\[n, h, dv\], in `sequences` sequences, with any strides.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Ragged<'a> {
    pub sequences: u64,
    pub heads: u64,
    pub kv_heads: u64,
    /// Number of queries of all sequences.
    pub n: u64,
    pub d: u64,
    pub dv: u64,
    pub q: OperandView<'a>,
    pub k: OperandView<'a>,
    pub v: OperandView<'a>,
    pub o: OperandView<'a>,
    /// Where the queries of each sequence begin, u32: \[sequences + 1\].
    pub cu_q: OperandView<'a>,
    pub keys: Keys<'a>,
    /// Alibi slopes\[h\] of q's type.
    pub slopes: Option<OperandView<'a>>,
    /// Sinks\[h\] of q's type.
    pub sinks: Option<OperandView<'a>>,
    /// Receives the logarithms of the denominators: f32 \[n, h\].
    pub lse: Option<OperandView<'a>>,
    pub scale: f64,
    pub causal: bool,
    /// How many keys a query sees to the left and to the right of its position.
    pub window: [Option<u64>; 2],
    pub softcap: Option<f64>,
    /// For `cu_q`; for `cu_k` or `lengths`; for `table`.
    pub reports: [Report; 3],
}

/// The strides of a view whose axes are `at`; -1 stands for an axis that the view lacks.
fn strides<const N: usize>(view: OperandView<'_>, at: [isize; N]) -> Result<[i64; N], Refused> {
    let rank = at.iter().filter(|axis| **axis >= 0).count();
    if view.strides.len() != rank {
        return Err(Refused::Rank(view.strides.len()));
    }
    Ok(at
        .map(|axis| usize::try_from(axis).ok().and_then(|axis| view.strides.get(axis)).copied().unwrap_or(0)))
}

/// The maximum number of keys of a sequence.
fn most_keys(call: &Ragged<'_>) -> Result<u64, Refused> {
    let (width, block) = match call.keys {
        Keys::SideBySide { rows, .. } => return Ok(rows),
        Keys::Blocks { width, block, .. } => (width, block),
    };
    let got = width.checked_mul(block).ok_or(Refused::Size)?;
    match got < MAX_KEYS {
        true => Ok(got),
        false => Err(Refused::Limit { what: "the keys that the table can hold", got, max: MAX_KEYS - 1 }),
    }
}

/// Multiplier and shift such that `key / block == (2 key * magic >> 32) >> shift` for every key below 2^31.
fn magic(block: u64) -> (u32, u32) {
    let block = block.clamp(1, MAX_KEYS);
    let shift = block.next_power_of_two().trailing_zeros();
    // At most 2^32 - 1, because the block is more than half of the power of two, or equal to it.
    let magic = (1u64 << (31 + shift)).div_ceil(block);
    (u32::try_from(magic).unwrap_or(u32::MAX), shift)
}

/// The largest value of an index type, which never is a block.
fn no_block(t: ElementType) -> u64 {
    match t {
        ElementType::U8 => u64::from(u8::MAX),
        ElementType::U32 => u64::from(u32::MAX),
        ElementType::I32 => i32::MAX as u64,
        _ => i64::MAX as u64,
    }
}

/// The arguments that describe where the sequences are.
fn places(call: &Ragged<'_>, attention: AttentionArgs) -> Result<RaggedArgs, Refused> {
    let step = |view: OperandView<'_>| strides(view, [0]).map(|[step]| step);
    let starts = |cu: OperandView<'_>| match cu.dtype {
        ElementType::U32 => Ok((cu.data, step(cu)?)),
        other => Err(Refused::NoKernel { op: "attention".into(), types: vec![call.q.dtype, other] }),
    };
    let (cu_q, cu_q_step) = starts(call.cu_q)?;
    let [of_queries, of_keys, of_table] = call.reports;
    let mut args = RaggedArgs {
        attention,
        cu_q,
        cu_q_step,
        sequences: call.sequences,
        block: 1,
        least: 1,
        error: of_queries.error,
        op_of_queries: of_queries.op,
        op_of_keys: of_keys.op,
        op_of_table: of_table.op,
        ..RaggedArgs::zeroed()
    };
    match call.keys {
        Keys::SideBySide { cu_k, .. } => (args.cu_k, args.cu_k_step) = starts(cu_k)?,
        Keys::Blocks { table, lengths, blocks, block, .. } => {
            (args.table, args.lengths) = (table.data, lengths.data);
            [args.table_row, args.table_step] = strides(table, [0, 1])?;
            args.lengths_step = step(lengths)?;
            args.index_kind = kind_of(table.dtype)?;
            args.blocks = blocks.min(no_block(table.dtype));
            if args.blocks > MAX_BLOCKS {
                let (what, got) = ("the number of blocks", blocks);
                return Err(Refused::Limit { what, got, max: MAX_BLOCKS });
            }
            args.block = block.max(1);
            (args.block_magic, args.block_shift) = magic(block);
        }
    }
    Ok(args)
}

/// The call as attention of a single batch entry with all queries; its strides are those of the call.
fn arguments(call: &Ragged<'_>, most_keys: u64) -> Result<(AttentionArgs, u64), Refused> {
    const ROWS: [isize; 4] = [-1, 1, 0, 2];
    let of_keys = match call.keys {
        Keys::SideBySide { .. } => ROWS,
        Keys::Blocks { .. } => [0, 2, 1, 3],
    };
    let (of_q, of_o) = (strides(call.q, ROWS)?, strides(call.o, ROWS)?);
    let (of_k, of_v) = (strides(call.k, of_keys)?, strides(call.v, of_keys)?);
    let of_lse = call.lse.map(|lse| strides(lse, [-1, 1, 0])).transpose()?.unwrap_or_default();
    let whole = Attention {
        batch: 1,
        heads: call.heads,
        kv_heads: call.kv_heads,
        t: call.n,
        s: most_keys,
        d: call.d,
        dv: call.dv,
        q: OperandView { strides: &of_q, ..call.q },
        k: OperandView { strides: &of_k, ..call.k },
        v: OperandView { strides: &of_v, ..call.v },
        o: OperandView { strides: &of_o, ..call.o },
        mask: None,
        slopes: call.slopes,
        sinks: call.sinks,
        lse: call.lse.map(|lse| OperandView { strides: &of_lse, ..lse }),
        scale: call.scale,
        causal: call.causal,
        window: call.window,
        softcap: call.softcap,
    };
    let args = attention::checked(&whole)?;
    let visible = attention::visible_keys(&whole, &args);
    Ok((args, visible))
}

/// Blocks of a decode kernel that check the indices: one per thousand, but at most as many as the device runs
/// at once.
fn checkers(call: &Ragged<'_>, args: &RaggedArgs, device: &Device) -> u64 {
    let of_each = 1 + args.attention.s / args.block;
    let indices = match call.keys {
        Keys::SideBySide { .. } => call.sequences,
        Keys::Blocks { .. } => call.sequences.saturating_mul(of_each),
    };
    indices.div_ceil(1024).clamp(1, device.blocks(1))
}

/// Prepares a call. `kv_heads` must divide `heads`.
pub fn prepare(call: &Ragged<'_>, device: &Device, plan: &mut Plan) -> Result<(), Refused> {
    let max = u64::from(u32::MAX) - 1;
    if call.sequences > max {
        return Err(Refused::Limit { what: "the number of sequences", got: call.sequences, max });
    }
    let (t, widest) = (call.q.dtype, call.d.max(call.dv));
    let (attention, visible) = arguments(call, most_keys(call)?)?;
    let mut args = places(call, attention)?;
    if call.sequences == 0 {
        // Rows of no sequence are an error of `cu_q`. Without heads, the kernels check it and look for no sequence.
        args.attention.kv_heads = 0;
    }
    let (group, kv_heads) = (args.attention.group, args.attention.kv_heads);
    let rows = call.n.checked_mul(group).ok_or(Refused::Size)?;
    // As many blocks as `Ragged` in the source counts.
    let blocks = |size: u64| {
        let spare = if group.is_multiple_of(size) { 0 } else { call.sequences };
        (rows / size + spare).checked_mul(kv_heads).ok_or(Refused::Size)
    };
    // Even without rows, the indices are checked.
    let launch = |variant, blocks: u64| {
        Ok(Launch::over(need("attention", variant, &[t])?, blocks.max(1), 1, u64::MAX))
    };
    let by_row = device.tuning.is_by_row();
    let few = (rows <= FEW_ROWS.saturating_mul(call.sequences) || by_row)
        && widest <= WHOLE_HEAD
        && args.attention.s < DECODE_KEYS;
    if let Some(&(variant, _, size)) = attention::on_matrix(&MMA_VARIANTS, t, widest, device).filter(|_| !few)
    {
        return plan.add((launch(variant, blocks(size)?)?, args));
    }
    if !few {
        let size = attention::tile(t, call.dv).1;
        let fitting = TILES.iter().find(|(_, _, most)| call.dv <= u64::from(*most));
        let (variant, ..) = *fitting.unwrap_or(&TILES[2]);
        args.attention.value_parts = attention::value_parts(call.dv);
        let tiles = blocks(size)?.checked_mul(args.attention.value_parts).ok_or(Refused::Size)?;
        return plan.add((launch(variant, tiles)?, args));
    }
    let single =
        (group == 1 || attention::is_short(call.sequences, visible)) && call.n <= call.sequences && !by_row;
    let kernel = Decode::of(t, widest, single);
    let splits = if by_row { 1 } else { attention::parts(visible, blocks(kernel.rows)?, device) };
    args.attention.splits = splits;
    args.least = device.tuning.decode_keys();
    let all = blocks(kernel.rows)?;
    decode::divide(&mut args.attention, t, rows, [all / kv_heads.max(1), all])?;
    if matches!(call.keys, Keys::Blocks { .. }) {
        decode::hold_groups(&mut args.attention, t, args.block);
    }
    args.checkers = checkers(call, &args, device);
    let launched = args.attention.work.checked_add(args.checkers).ok_or(Refused::Size)?;
    let main = launch(kernel.ragged, launched)?;
    args.attention.at_once = u64::from(main.grid[0]).saturating_sub(args.checkers).max(1);
    let lines = rows.checked_mul(call.kv_heads).ok_or(Refused::Size)?;
    plan.workspace = attention::partial_bytes(t, call.dv, lines, splits)?;
    attention::add_decode(main, &args, (splits, offset_of!(RaggedArgs, attention)), plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_a_block_is_exact() {
        let blocks =
            (1..70).chain([100, 127, 128, 1000, 65_535, 65_537, (1 << 30) + 1, MAX_KEYS - 1, MAX_KEYS]);
        for block in blocks {
            let (magic, shift) = magic(block);
            let near = |n: u64| (n * block).saturating_sub(2)..=n * block + 2;
            let last = (MAX_KEYS - 1) / block;
            let keys = (0..9).flat_map(near).chain(near(last)).chain(near(last / 3)).chain([MAX_KEYS - 1]);
            for key in keys.filter(|key| *key < MAX_KEYS) {
                assert_eq!(((2 * key * u64::from(magic)) >> 32) >> shift, key / block, "{key} / {block}");
            }
        }
    }
}
