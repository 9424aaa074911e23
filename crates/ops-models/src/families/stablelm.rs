//! StableLM: layer norms, a part of each head rotated, in some models attention and feed-forward side by side. Bellagente et al.,
//! 2024.
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
