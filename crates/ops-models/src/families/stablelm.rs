//! StableLM: layer norms, partially rotated heads, in some models parallel attention and feed-forward.
//! Bellagente et al., 2024.
use super::Family;
use crate::NormKind;

pub(super) const FAMILY: Family = Family {
    name: "stablelm",
    adjust: |keys, config| {
        config.norm = NormKind::Layer;
        config.parallel = keys.find::<bool>("use_parallel_residual")?.unwrap_or(false);
        Ok(())
    },
};
