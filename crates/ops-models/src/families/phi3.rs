//! Phi 3: query, key and value in one matrix, gate and up in another. Abdin et al., 2024.
//!
//! Models with a long context have two factors for each rotary frequency, which files store as tensors. The
//! long ones apply if the decoder is loaded for a longer context than the original one, whatever a text's
//! length: keys in a cache stay as they were rotated.
use super::{Family, PLAIN};
use crate::folder::parts::{COMMON, Folder, Windows};
use ops_core::model::RopeScaling;

pub(super) const FAMILY: Family = Family {
    name: "phi3",
    folders: &[Folder {
        model_type: "phi3",
        title: "Phi 3",
        example: "microsoft/Phi-4-mini-instruct",
        windows: Windows::All,
        partial_rope: Some(1.0),
        long_rope: true,
        ..COMMON
    }],
    adjust: |keys, config| {
        // These files do not name a scaling type, and have this key only if they have the factors.
        if let (RopeScaling::None, Some(attention_factor)) =
            (&config.rope_scaling, keys.float("rope.scaling.attn_factor")?)
        {
            let original_context = keys.count("rope.scaling.original_context_length")? as f64;
            let (short, long) = (Vec::new(), Vec::new());
            config.rope_scaling = RopeScaling::LongRope { short, long, original_context, attention_factor };
        }
        Ok(())
    },
    ..PLAIN
};
