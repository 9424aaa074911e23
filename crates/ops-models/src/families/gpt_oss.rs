//! GPT-OSS: sinks, windows in every second layer beginning with the first, biases everywhere, experts scored
//! after the choice. OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025.
use super::Family;
use crate::{Activation, Experts, Window};
use ops_core::model::RopeScaling;
use ops_core::ops::ScoringOrder;

pub(super) const FAMILY: Family = Family {
    name: "gpt-oss",
    adjust: |keys, config| {
        // There are no keys for these two.
        config.activation = Activation::SwigluClamped { alpha: 1.702, limit: 7.0 };
        config.feed_norm = "post_attention_norm";
        let size = keys.count("attention.sliding_window")?;
        config.window = Some(Window { size, period: 2, rope_base: None });
        let experts = Experts::read(keys, keys.count("expert_feed_forward_length")?)?;
        // There is no key for this.
        config.experts = Some(Experts { order: ScoringOrder::After, ..experts });
        // The published configuration has `truncate: false`, for which GGUF files have no key.
        if let RopeScaling::Yarn { truncate, .. } = &mut config.rope_scaling {
            *truncate = keys.find("rope.scaling.truncate")?.unwrap_or(false);
        }
        Ok(())
    },
};
