//! Gemma 3: every sixth layer has no window, the others have their own rope base; norms of heads, and around
//! each block. Gemma Team, 2025.
use super::gemma2::GEMMA;
use super::{Family, PLAIN};
use crate::folder::parts::{Folder, Images, Windows};
use crate::{Activation, Window};
use serde_json::json;

pub(super) const FAMILY: Family = Family {
    name: "gemma3",
    folders: &[Folder {
        model_type: "gemma3_text",
        windows: Windows::ButEvery(6),
        rope_base: None,
        head_norms: true,
        images: Some(Images {
            model_type: "gemma3",
            defaults: || {
                json!({
                    "vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                    "max_position_embeddings": 131_072, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 256,
                    "rope_theta": 1e6,
                })
            },
        }),
        ..GEMMA
    }],
    adjust: |keys, config| {
        config.activation = Activation::Geglu;
        config.post_norms = true;
        config.embedding_scale = (config.dim as f64).sqrt();
        config.logit_softcap = keys.float("final_logit_softcapping")?.filter(|cap| *cap != 0.0);
        // The 27B model (62 layers) scales its scores by its width, not by that of a head; files have no key for it.
        if config.layers == 62 && config.score_scale.is_none() {
            config.score_scale = Some((config.dim as f64 / config.heads as f64).sqrt().recip());
        }
        let rope_base = Some(keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0));
        let size = keys.count("attention.sliding_window")?;
        config.window = Some(Window { rope_base, ..Window::but_every(6, size) });
        Ok(())
    },
    ..PLAIN
};
