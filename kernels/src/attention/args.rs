//! The arguments of the kernels of attention.
use crate::instances::arguments;
use crate::{Divider, StridedPointer};

arguments! {
    /// Arguments of every attention kernel.
    pub struct AttentionArgs {
        pub q: StridedPointer,
        pub k: StridedPointer,
        pub v: StridedPointer,
        pub o: StridedPointer,
        pub mask: StridedPointer,
        pub slopes: u64,
        pub slope_stride: i64,
        pub batch: u64,
        pub kv_heads: u64,
        pub group: u64,
        pub t: u64,
        pub s: u64,
        pub d: u64,
        pub left: i64,
        pub right: i64,
        pub scale: f64,
        pub softcap: f64,
        pub mask_kind: u64,
        /// Device address of the workspace, aligned to 8 bytes. Unused with one part, as are the counters.
        pub partial: u64,
        pub arrivals: u64,
        pub splits: u64,
        pub dv: u64,
        pub value_parts: u64,
        pub sinks: u64,
        pub sink_stride: i64,
        pub lse: StridedPointer,
        pub flags: u64,
        pub work: u64,
        pub at_once: u64,
        pub by_splits: Divider,
        pub by_blocks: Divider,
        pub by_heads: Divider,
        pub by_group: Divider,
        pub by_rows: Divider,
    }
}
