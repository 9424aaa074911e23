//! Qwen 3 with a mixture of experts: softmax over all experts, with the chosen weights renormalised. Yang et
//! al., 2025.
use super::{Family, PLAIN, qwen3next};
use crate::Experts;
use crate::folder::parts::{COMMON, Folder, Windows};

pub(super) const FAMILY: Family = Family {
    name: "qwen3moe",
    folders: &[Folder {
        model_type: "qwen3_moe",
        title: "Qwen 3 with experts",
        example: "Qwen/Qwen3-30B-A3B",
        refused: "dense layers between those with experts",
        windows: Windows::Off,
        own_head_dim: true,
        head_norms: true,
        experts: qwen3next::experts,
        ..COMMON
    }],
    adjust: |keys, config| {
        config.experts = Some(Experts::read(keys, keys.count("expert_feed_forward_length")?)?);
        Ok(())
    },
    ..PLAIN
};
