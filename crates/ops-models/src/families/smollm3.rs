//! SmolLM 3: every fourth layer does not rotate. Hugging Face, 2025.
use super::{Family, PLAIN, rows_in_pairs};
use crate::Result;
use crate::folder::options::Options;
use crate::folder::parts::{COMMON, Folder, Keys, Split, Windows};

/// Files have no key for it.
const PERIOD: usize = 4;

pub(super) const FAMILY: Family = Family {
    name: "smollm3",
    folders: &[Folder {
        model_type: "smollm3",
        title: "SmolLM 3",
        example: "HuggingFaceTB/SmolLM3-3B",
        refused: "rope left out of other layers than every fourth",
        windows: Windows::Off,
        tied: true,
        rope_base: Some(2e6),
        translate,
        ..COMMON
    }],
    adjust: |keys, config| {
        config.unrotated = Some(PERIOD);
        rows_in_pairs(keys, config)
    },
    ..PLAIN
};

fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    keys.set("rope.halves", true)?;
    options.only("no_rope_layer_interval", "4", |value| value.as_u64() == Some(PERIOD as u64))?;
    options.only("no_rope_layers", "0 for every fourth layer, 1 for the others", |value| {
        let layers = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let rotates = |layer: usize| u64::from(!(layer + 1).is_multiple_of(PERIOD));
        layers.iter().enumerate().all(|(layer, value)| value.as_u64() == Some(rotates(layer)))
    })?;
    Ok(Split::None)
}
