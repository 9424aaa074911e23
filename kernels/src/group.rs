//! Collectives of devices of one process, for small messages: all_reduce and all_gather over memory that all ranks reach.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{ElementType, Family, Launch, Refused};

/// Threads per block; `GROUP_BLOCK` in the source.
const BLOCK: u32 = 256;
/// Bytes of a block's share, unless that takes more than [`BLOCKS`].
const MIN_BYTES: u64 = 8 << 10;
/// The most ranks; `GROUP_RANKS` in the source.
pub const RANKS: usize = 8;
/// The most blocks; `GROUP_BLOCKS` in the source.
const BLOCKS: u64 = 16;
/// The most bytes that a rank can give in a call; `GROUP_SLOT` in the source.
pub const SLOT: usize = 256 << 10;

arguments! {
    /// Arguments of a collective.
    pub struct GroupArgs {
        pub x: u64,
        pub y: u64,
        /// Of this rank's [`GroupState`], which is zero before the first call.
        pub state: u64,
        /// Of the ranks' [`GroupStatus`], which is zero before the first call.
        pub status: u64,
        /// Of each rank's area of [`area_bytes`], zero before the first call.
        pub area: [u64; RANKS],
        /// Elements of `x`.
        pub count: u64,
        /// `all_gather`: elements of `y` from one rank's part to the next.
        pub pitch: u64,
        pub rank: u64,
        pub ranks: u64,
        /// What all ranks must agree on: below 2³², and not 0.
        pub call: u64,
        /// How long to wait for other ranks, in ticks of the device's clock.
        pub limit: u64,
    }

    /// What a rank's kernels keep from call to call, in plain memory of its device.
    pub struct GroupState {
        pub calls: u32,
        pub begun: u32,
        pub ended: u32,
        pub failed: u32,
    }

    /// Why a rank could not go on; complete when `state` is 2.
    pub struct GroupRecord {
        pub state: u32,
        /// [`LATE`], [`DISAGREES`] or [`LEFT`].
        pub cause: u32,
        pub peer: u32,
        pub reserved: u32,
        pub own: u64,
        pub other: u64,
    }

    /// What all ranks and the host share, in coherent host memory.
    pub struct GroupStatus {
        /// Not 0: the group has failed.
        pub over: u32,
        pub reserved: [u32; 7],
        /// Not 0: the rank does nothing any more.
        pub left: [u32; RANKS],
        pub record: [GroupRecord; RANKS],
    }
}

/// A [`GroupRecord`]'s cause: the peer did not join in time.
pub const LATE: u32 = 1;
/// The peer called something else.
pub const DISAGREES: u32 = 2;
/// The peer had left.
pub const LEFT: u32 = 3;

/// Bytes of a rank's area: flags, then two halves with a slot for each rank.
pub const fn area_bytes(ranks: usize) -> usize {
    2 * RANKS * BLOCKS as usize * 8 + 2 * ranks * SLOT
}

const NUMBERS: [ElementType; 10] = {
    use ElementType::{Bf16, F16, F32, F64, I8, I16, I32, I64, U8, U32};
    [U8, I8, I16, I32, I64, U32, F16, Bf16, F32, F64]
};

pub(crate) fn declare(table: &mut Table) {
    let mut group = table.of::<GroupArgs>(Family::Group, BLOCK);
    let lds = 4;
    for (variant, make) in [("sum", "Reduce<GroupSum>"), ("max", "Reduce<GroupMax>")] {
        for t in NUMBERS {
            group.part("reduce").add_variant("all_reduce", variant, &[t], "group_call", &[make], lds);
        }
    }
    for t in ElementType::BITS {
        group.part("gather").add_variant("all_gather", "", &[t], "group_call", &["Gather"], lds);
    }
}

/// Prepares an `all_reduce`, with the variant `sum` or `max`, or an `all_gather`, whose elements are moved as bits. `x` has at most
/// [`SLOT`] bytes. `y` may be `x` in an `all_reduce`, and its own part of `y` in an `all_gather`.
pub fn prepare(
    op: &str,
    variant: &str,
    dtype: ElementType,
    args: GroupArgs,
) -> Result<(Launch, GroupArgs), Refused> {
    let instance = need(op, variant, &[dtype])?;
    let bytes = args.count.saturating_mul(dtype.bytes() as u64);
    if bytes > SLOT as u64 || args.ranks > RANKS as u64 {
        return Err(Refused::Because(format!(
            "{op} takes up to {SLOT} bytes and {RANKS} ranks, not {bytes} and {}",
            args.ranks
        )));
    }
    // A small message is left to one block, which needs no number from a counter in memory.
    Ok((Launch::over(instance, bytes, MIN_BYTES, BLOCKS), args))
}
