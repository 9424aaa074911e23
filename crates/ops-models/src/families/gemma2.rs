//! Gemma 2: every second layer has a window, beginning with the first; softcaps; norms before and after each
//! block. Gemma Team, 2024.
use super::{Family, PLAIN};
use crate::folder::options::Options;
use crate::folder::parts::{COMMON, Folder, Keys, Split, Windows};
use crate::{Activation, Result, Window};

/// What folders of Gemma 2 and 3 have in common.
pub(super) const GEMMA: Folder = Folder {
    translate: gemma,
    activation: "gelu_pytorch_tanh",
    own_head_dim: true,
    tied: true,
    norms_plus_one: true,
    post_attention_norm: true,
    ..COMMON
};

pub(super) const FAMILY: Family = Family {
    name: "gemma2",
    folders: &[Folder {
        model_type: "gemma2",
        title: "Gemma 2",
        example: "google/gemma-2-2b-it",
        windows: Windows::ButEvery(2),
        translate: |options, keys| {
            options.only("use_bidirectional_attention", "false", |value| value.as_bool() == Some(false))?;
            gemma(options, keys)
        },
        ..GEMMA
    }],
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
        config.window = Some(Window::but_every(2, size));
        Ok(())
    },
    ..PLAIN
};

fn gemma(options: &Options, keys: &mut Keys) -> Result<Split> {
    for option in ["attn_logit_softcapping", "final_logit_softcapping"] {
        keys.set_if(option, options.number(option)?.map(|cap| cap as f32))?;
    }
    let scalar = options.number("query_pre_attn_scalar")?;
    let scalar = options.required("query_pre_attn_scalar", scalar)?;
    keys.set("attention.scale", (1.0 / scalar.sqrt()) as f32)?;
    Ok(Split::None)
}
