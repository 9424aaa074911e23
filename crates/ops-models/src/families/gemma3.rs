//! Gemma 3: every sixth layer has no window, the others have their own rope base; norms of heads, and around
//! each block. Gemma Team, 2025.
use super::Family;
use crate::{Activation, Window};

pub(super) const FAMILY: Family = Family {
    name: "gemma3",
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
        config.window = Some(Window { size, period: 6, rope_base });
        Ok(())
    },
};
