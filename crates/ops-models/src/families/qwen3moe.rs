//! Qwen 3 with a mixture of experts: softmax over all experts, with the chosen weights renormalised. Yang et
//! al., 2025.
use super::Family;
use crate::Experts;

pub(super) const FAMILY: Family = Family {
    name: "qwen3moe",
    adjust: |keys, config| {
        config.experts = Some(Experts::read(keys, keys.count("expert_feed_forward_length")?)?);
        Ok(())
    },
};
