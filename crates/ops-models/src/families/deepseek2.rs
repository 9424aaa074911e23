//! DeepSeek V2 and V3: latent attention, dense blocks in the first layers, grouped experts and a shared
//! expert. DeepSeek-AI, "DeepSeek-V2", 2024, and "DeepSeek-V3 Technical Report", 2024.
use super::Family;
use crate::{Experts, Latent};
use ops_core::model::RopeScaling;
use ops_core::ops::{GroupScore, RopeForm, Scoring};

pub(super) const FAMILY: Family = Family {
    name: "deepseek2",
    adjust: |keys, config| {
        config.rope = RopeForm::Interleaved;
        let rank = keys.count("attention.kv_lora_rank")?;
        // Older files, whose matrices are not split by head, lack this key.
        let key_length = keys.count("attention.key_length_mla")?;
        if key_length <= config.rope_dim {
            let wanted = format!("more than the {} rotated features", config.rope_dim);
            return Err(keys.wrong("attention.key_length_mla", key_length, wanted));
        }
        if config.head_dim.checked_sub(config.rope_dim) != Some(rank) {
            let wanted = format!("{rank} (kv_lora_rank) and {} rotated features", config.rope_dim);
            return Err(keys.wrong("attention.key_length", config.head_dim, wanted));
        }
        if config.kv_heads != 1 {
            return Err(keys.wrong("attention.head_count_kv", config.kv_heads, "1: one row for all heads"));
        }
        let query_rank = keys.find::<u32>("attention.q_lora_rank")?.filter(|rank| *rank > 0);
        config.latent = Some(Latent {
            rank,
            query_rank: query_rank.map(|rank| rank as usize),
            nope: key_length - config.rope_dim,
            value_dim: keys.count("attention.value_length_mla")?,
        });

        // With YaRN the tables are not scaled; instead the scores grow with the factor.
        let mut growth = 1.0;
        let multiplier = keys.float("rope.scaling.yarn_log_multiplier")?.filter(|n| *n != 0.0);
        if let (RopeScaling::Yarn { factor, attention_factor, .. }, Some(multiplier)) =
            (&mut config.rope_scaling, multiplier)
        {
            *attention_factor = attention_factor.or(Some(1.0));
            growth = if *factor > 1.0 { 1.0 + multiplier * factor.ln() } else { 1.0 };
        }
        let scale = config.score_scale.unwrap_or((key_length as f64).sqrt().recip());
        config.score_scale = Some(scale * growth * growth);

        let mut experts = Experts::read(keys, keys.count("expert_feed_forward_length")?)?;
        experts.renormalize = keys.find::<bool>("expert_weights_norm")?.unwrap_or(false);
        // V2 and V3 score groups differently. No key says which applies, but V2 is the one with softmax.
        if experts.scoring == Scoring::Softmax {
            experts.group_score = GroupScore::Max;
        }
        config.experts = Some(experts);
        Ok(())
    },
};
