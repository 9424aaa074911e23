//! Qwen 2 and 2.5: biases on query, key and value. Yang et al., 2024.
use super::{Family, PLAIN};
use crate::folder::parts::{COMMON, Folder, Windows};

pub(super) const FAMILY: Family = Family {
    name: "qwen2",
    folders: &[Folder {
        model_type: "qwen2",
        title: "Qwen 2, 2.5",
        example: "Qwen/Qwen2.5-3B",
        refused: "`use_sliding_window`",
        windows: Windows::Off,
        ..COMMON
    }],
    ..PLAIN
};
