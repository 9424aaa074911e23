//! Ministral 3: Mistral with YaRN, whose queries grow with their position. Mistral AI, 2025.
use super::{Family, PLAIN, rows_in_pairs};
use crate::QueryGrowth;
use crate::folder::parts::{COMMON, Folder, Split};
use ops_core::model::RopeScaling;

pub(super) const FAMILY: Family = Family {
    name: "mistral3",
    folders: &[Folder {
        model_type: "ministral3",
        title: "Ministral 3",
        example: "mistralai/Ministral-3-8B-Instruct-2512",
        refused: "attention windows (`sliding_window`)",
        own_head_dim: true,
        yarn_mscale: true,
        query_growth: true,
        translate: |options, keys| {
            keys.set("rope.halves", true)?;
            options.only("sliding_window", "none", |_| false)?;
            Ok(Split::None)
        },
        ..COMMON
    }],
    adjust: |keys, config| {
        rows_in_pairs(keys, config)?;
        if let Some(beta) = keys.float("attention.temperature_scale")?.filter(|beta| *beta != 0.0) {
            let original = keys.count("rope.scaling.original_context_length")?;
            config.query_growth = Some(QueryGrowth { beta, original });
        }
        // The tables would be scaled by the quotient of two numbers, which are equal in these models.
        if let RopeScaling::Yarn { attention_factor, .. } = &mut config.rope_scaling {
            *attention_factor = attention_factor.or(Some(1.0));
        }
        Ok(())
    },
    ..PLAIN
};
