//! Gemma, the first release: norms, scaled embeddings and gated gelu, without windows or softcaps. Gemma Team, 2024.
use super::gemma2::GEMMA;
use super::{Family, PLAIN};
use crate::Activation;
use crate::folder::parts::{Folder, Split};

pub(super) const FAMILY: Family = Family {
    name: "gemma",
    folders: &[Folder {
        model_type: "gemma",
        title: "Gemma",
        example: "google/gemma-2b",
        post_attention_norm: false,
        translate: |options, _| {
            options.only("use_bidirectional_attention", "false", |value| value.as_bool() == Some(false))?;
            Ok(Split::None)
        },
        ..GEMMA
    }],
    adjust: |_, config| {
        config.activation = Activation::Geglu;
        config.embedding_scale = (config.dim as f64).sqrt();
        Ok(())
    },
    ..PLAIN
};
