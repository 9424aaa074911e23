//! Qwen 3 with a mixture of experts: softmax over all, the weights of the chosen ones renormalised. Yang et al., 2025.
use super::Family;
use crate::Experts;

pub(super) const FAMILY: Family = Family {
    name: "qwen3moe",
    adjust: |keys, config| {
        config.experts = Some(Experts {
            count: keys.count("expert_count")?,
            used: keys.count("expert_used_count")?,
            ffn: keys.count("expert_feed_forward_length")?,
            renormalize: true,
        });
        Ok(())
    },
};
