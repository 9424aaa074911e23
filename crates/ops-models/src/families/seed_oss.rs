//! Seed OSS: biases on query, key and value. ByteDance Seed, 2025.
use super::{Family, PLAIN};
use crate::folder::parts::{COMMON, Folder};

pub(super) const FAMILY: Family = Family {
    name: "seed_oss",
    folders: &[Folder {
        model_type: "seed_oss",
        title: "Seed OSS",
        example: "ByteDance-Seed/Seed-OSS-36B-Instruct",
        own_head_dim: true,
        post_attention_norm: true,
        translate: |options, _| {
            options.get("attention_out_bias");
            Ok(crate::folder::parts::Split::None)
        },
        ..COMMON
    }],
    adjust: |_, config| {
        config.feed_norm = "post_attention_norm";
        Ok(())
    },
    ..PLAIN
};
