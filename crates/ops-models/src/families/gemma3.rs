//! Gemma 3: every sixth layer has no window, the others have their own rope base; norms of heads, and around
//! each block. Gemma Team, 2025.
use super::gemma2::GEMMA;
use super::{Family, PLAIN};
use crate::folder::parts::{Folder, Images, Windows};
use crate::keys::Keys;
use crate::{Activation, Config, Result, Window};
use serde_json::json;

pub(super) const FAMILY: Family = Family {
    name: "gemma3",
    folders: &[Folder {
        model_type: "gemma3_text",
        title: "Gemma 3",
        example: "google/gemma-3-1b-it",
        refused: "images",
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
        translate: |options, keys| {
            keys.set_if("attention.causal", options.flag(BOTH_SIDES)?.map(|both| !both))?;
            (GEMMA.translate)(options, keys)
        },
        ..GEMMA
    }],
    adjust,
    ..PLAIN
};

/// EmbeddingGemma, an encoder: half of each window is on either side of a token. Vera et al., 2025.
pub(super) const EMBEDDING: Family = Family {
    name: "gemma-embedding",
    generates: false,
    adjust: |keys, config| {
        config.causal = false;
        adjust(keys, config)
    },
    ..PLAIN
};

/// Whether attention sees both sides of a token, in folders.
const BOTH_SIDES: &str = "use_bidirectional_attention";

fn adjust(keys: &Keys<'_>, config: &mut Config) -> Result<()> {
    // Folders of encoders have it.
    config.causal &= keys.find::<bool>("attention.causal")?.unwrap_or(true);
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
    // That of an encoder is on both sides of a token.
    let size = if config.causal { size } else { size / 2 + 1 };
    config.window = Some(Window { rope_base, ..Window::but_every(6, size) });
    Ok(())
}
