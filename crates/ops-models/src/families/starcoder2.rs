//! StarCoder 2: layer norms, biases everywhere, gelu without a gate. Lozhkov et al., 2024.
use super::Family;
use crate::{Activation, NormKind};

pub(super) const FAMILY: Family = Family {
    name: "starcoder2",
    adjust: |_, config| {
        config.norm = NormKind::Layer;
        config.activation = Activation::Gelu;
        Ok(())
    },
};
