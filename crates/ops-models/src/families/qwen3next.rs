//! Qwen 3 Next: linear attention in all layers but every fourth, gated attention in those; experts, and a
//! shared block with its own gate. Qwen Team, "Qwen3-Next: Towards Ultimate Training & Inference Efficiency",
//! 2025.
use super::Family;
use crate::{Experts, Recurrent};

pub(super) const FAMILY: Family = Family {
    name: "qwen3next",
    adjust: |keys, config| {
        config.feed_norm = "post_attention_norm";
        config.gated = true;
        config.recurrent = Some(Recurrent::read(keys, config.layers)?);
        config.experts = Some(Experts::read(keys, keys.count("expert_feed_forward_length")?)?);
        Ok(())
    },
};
