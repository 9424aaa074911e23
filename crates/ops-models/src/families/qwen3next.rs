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
        // Layers that predict further tokens come last. They are passed over, as in folders.
        let key = "nextn_predict_layers";
        config.passed_over = keys.find::<u32>(key)?.unwrap_or(0) as usize;
        let rest = config.layers.checked_sub(config.passed_over).filter(|rest| *rest > 0);
        config.layers = rest.ok_or_else(|| {
            keys.wrong(
                key,
                config.passed_over,
                format!("less than the {} layers of block_count", config.layers),
            )
        })?;
        config.recurrent = Some(Recurrent::read(keys, (config.layers, config.passed_over))?);
        config.experts = Some(Experts::read(keys, keys.count("expert_feed_forward_length")?)?);
        Ok(())
    },
};
