//! Qwen 3: norms of the heads of query and key. Yang et al., 2025.
use super::{Family, PLAIN};
use crate::folder::parts::{COMMON, Folder, Windows};

pub(super) const FAMILY: Family = Family {
    name: "qwen3",
    folders: &[Folder {
        model_type: "qwen3",
        title: "Qwen 3",
        example: "Qwen/Qwen3-0.6B",
        refused: "`use_sliding_window`",
        windows: Windows::Off,
        own_head_dim: true,
        head_norms: true,
        ..COMMON
    }],
    ..PLAIN
};
