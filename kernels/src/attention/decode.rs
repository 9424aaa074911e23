//! The kernels for attention with few queries, and the arguments that only they read.
use super::args::AttentionArgs;
use crate::instances::Declare;
use crate::{Divider, ElementType, Refused, StridedPointer};

/// Threads per block.
pub(crate) const BLOCK: u32 = 128;
/// Elements of a head per lane; `SLICE` in the source.
const SLICE: u64 = 8;
/// Bytes per access.
const PACK: u64 = 16;

/// Bits of [`AttentionArgs::flags`].
const KEYS_IN_PACKS: u64 = 1;
const QUERIES_IN_PACKS: u64 = 2;
const ONLY_SCALED: u64 = 4;
const GROUPS_IN_BLOCKS: u64 = 8;

/// A kernel.
pub(crate) struct Decode {
    pub(crate) variant: &'static str,
    pub(crate) ragged: &'static str,
    /// The parts of the family that contain them.
    parts: [&'static str; 2],
    /// Number of lanes that share a key, eight elements each.
    lanes: u64,
    /// Rows per block.
    pub(crate) rows: u64,
}

const fn decode(variants: [&'static str; 2], parts: [&'static str; 2], lanes: u64, rows: u64) -> Decode {
    Decode { variant: variants[0], ragged: variants[1], parts, lanes, rows }
}

const DECODE64: [&str; 2] = ["head64", "ragged64"];
const DECODE128: [&str; 2] = ["head128", "ragged128"];
const DECODE256: [&str; 2] = ["head256", "ragged256"];
/// All of these kernels, by head size and number of rows.
pub(crate) const DECODES: [Decode; 6] = [
    decode(["decode64_rows1", "ragged_decode64_rows1"], DECODE64, 8, 1),
    decode(["decode64_rows4", "ragged_decode64_rows4"], DECODE64, 8, 4),
    decode(["decode128_rows1", "ragged_decode128_rows1"], DECODE128, 16, 1),
    decode(["decode128_rows4", "ragged_decode128_rows4"], DECODE128, 16, 4),
    decode(["decode256_rows1", "ragged_decode256_rows1"], DECODE256, 32, 1),
    decode(["decode256_rows4", "ragged_decode256_rows4"], DECODE256, 32, 4),
];

impl Decode {
    /// The kernel for heads of this width, for one or for several rows per key head. In f64, each row is
    /// computed separately.
    pub(crate) fn of(t: ElementType, widest: u64, single: bool) -> &'static Decode {
        let rows = if single || t == ElementType::F64 { 1 } else { 4 };
        let fits = |kernel: &&Decode| kernel.rows == rows && widest <= kernel.lanes * 8;
        // The widest heads of a call with few queries fit the last kernels.
        DECODES.iter().find(fits).unwrap_or(&DECODES[if rows == 1 { 4 } else { 5 }])
    }

    /// Bytes of LDS: `decode_slots` in the source.
    fn lds(&self, t: ElementType) -> u32 {
        let merged = (64 / self.lanes).min(self.rows);
        let slots = 4 * (merged * self.lanes * 8 + 2 * self.rows);
        slots as u32 * if t == ElementType::F64 { 8 } else { 4 }
    }

    /// Declares all kernels, over batch entries, or over sequences of different lengths.
    pub(crate) fn declare(decode: &mut Declare<'_>, ragged: bool) {
        let template = if ragged { "decode_ragged" } else { "attention_decode" };
        for t in ElementType::FLOATS {
            for kernel in DECODES.iter().filter(|kernel| t != ElementType::F64 || kernel.rows == 1) {
                let variant = if ragged { kernel.ragged } else { kernel.variant };
                let lead = [kernel.lanes.to_string(), kernel.rows.to_string()];
                let lead = lead.each_ref().map(String::as_str);
                let part = decode.part(kernel.parts[usize::from(ragged)]);
                part.add_variant("attention", variant, &[t], template, &lead, kernel.lds(t));
            }
        }
    }
}

/// Whether every lane can read its part of a row of this width in packs.
fn in_packs(t: ElementType, rows: &StridedPointer, width: u64) -> bool {
    let pack = (PACK / t.bytes() as u64) as i64;
    let [.., batch, heads, along, step] = rows.stride;
    step == 1
        && rows.data.is_multiple_of(PACK)
        && width > 0
        && width.is_multiple_of(SLICE)
        && [batch, heads, along].iter().all(|stride| stride % pack == 0)
}

/// Sets whether blocks of a paged cache contain whole groups of the keys that a lane group processes at a
/// time.
pub(crate) fn hold_groups(args: &mut AttentionArgs, t: ElementType, block: u64) {
    // `decode_keys` in the source, for waves of 32; waves of 64 take half as many.
    if block.is_multiple_of(16 / t.bytes() as u64) {
        args.flags |= GROUPS_IN_BLOCKS;
    }
}

/// Sets what the kernels need to find their work. A key head has `rows` rows in the given number of blocks;
/// the second number is the total.
pub(crate) fn divide(
    args: &mut AttentionArgs,
    t: ElementType,
    rows: u64,
    [of_head, all]: [u64; 2],
) -> Result<(), Refused> {
    let flag = |bit: u64, set: bool| if set { bit } else { 0 };
    args.flags = flag(KEYS_IN_PACKS, in_packs(t, &args.k, args.d) && in_packs(t, &args.v, args.dv))
        | flag(QUERIES_IN_PACKS, in_packs(t, &args.q, args.d))
        | flag(ONLY_SCALED, args.softcap == 0.0 && args.slopes == 0 && args.mask_kind == 0);
    args.work = all.checked_mul(args.splits).filter(|work| *work >> 62 == 0).ok_or(Refused::Size)?;
    let by = |n: u64| Divider::new(n.max(1));
    args.by_splits = by(args.splits);
    args.by_blocks = by(of_head);
    args.by_heads = by(args.kv_heads);
    args.by_group = by(args.group);
    args.by_rows = by(rows);
    Ok(())
}
