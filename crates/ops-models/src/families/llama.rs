//! Llama, and what is converted as such: Mistral and Mixtral. Touvron et al., 2023; Jiang et al., 2023 and 2024.
use super::Family;
use crate::Experts;
use ops_core::ops::RopeForm;

pub(super) const FAMILY: Family = Family {
    name: "llama",
    adjust: |keys, config| {
        // Files have the rows of queries and keys in an order of pairs; a folder's are in that of halves, which is said.
        if !keys.find::<bool>("rope.halves")?.unwrap_or(false) {
            config.rope = RopeForm::Interleaved;
        }
        // Mixtral renormalises; no key says so. Its experts have the width of a dense block.
        if keys.find::<u32>("expert_count")?.unwrap_or(0) > 0 {
            config.experts = Some(Experts::read(keys, config.ffn)?);
        }
        Ok(())
    },
};
