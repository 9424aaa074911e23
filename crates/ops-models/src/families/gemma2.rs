//! Gemma 2: every second layer has a window, beginning with the first; softcaps; norms before and after each
//! block. Gemma Team, 2024.
use super::Family;
use crate::{Activation, Window};

pub(super) const FAMILY: Family = Family {
    name: "gemma2",
    adjust: |keys, config| {
        config.activation = Activation::Geglu;
        config.post_norms = true;
        config.embedding_scale = (config.dim as f64).sqrt();
        config.score_softcap = keys.float("attn_logit_softcapping")?.filter(|cap| *cap != 0.0);
        config.logit_softcap = keys.float("final_logit_softcapping")?.filter(|cap| *cap != 0.0);
        // The 27B model (46 layers) scales its scores by its width, not by that of a head; files have no key for it.
        if config.layers == 46 && config.score_scale.is_none() {
            config.score_scale = Some((config.dim as f64 / config.heads as f64).sqrt().recip());
        }
        let size = keys.count("attention.sliding_window")?;
        config.window = Some(Window { size, period: 2, rope_base: None });
        Ok(())
    },
};
