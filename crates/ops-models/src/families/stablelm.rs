//! StableLM: layer norms, partially rotated heads, in some models parallel attention and feed-forward.
//! Bellagente et al., 2024.
use super::{Family, PLAIN};
use crate::folder::options::Options;
use crate::folder::parts::{COMMON, Folder, Keys, Split};
use crate::{NormKind, Result};

pub(super) const FAMILY: Family = Family {
    name: "stablelm",
    folders: &[Folder {
        model_type: "stablelm",
        title: "StableLM",
        example: "stabilityai/stablelm-2-zephyr-1_6b",
        refused: "norms of heads (`qk_layernorm`)",
        eps: "layer_norm_eps",
        partial_rope: Some(0.25),
        translate,
        ..COMMON
    }],
    adjust: |keys, config| {
        config.norm = NormKind::Layer;
        config.parallel = keys.find::<bool>("use_parallel_residual")?.unwrap_or(false);
        Ok(())
    },
    ..PLAIN
};

fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    keys.set_if("use_parallel_residual", options.flag("use_parallel_residual")?)?;
    options.only("qk_layernorm", "false", |value| value.as_bool() == Some(false))?;
    Ok(Split::None)
}
