//! Llama, and models converted as such: Mistral and Mixtral. Touvron et al., 2023; Jiang et al., 2023 and
//! 2024.
use super::Family;
use crate::Experts;
use ops_core::ops::RopeForm;

pub(super) const FAMILY: Family = Family {
    name: "llama",
    adjust: |keys, config| {
        // Files have the rows of queries and keys in pairs; folders have them in halves, and a key says so.
        if !keys.find::<bool>("rope.halves")?.unwrap_or(false) {
            config.rope = RopeForm::Interleaved;
        }
        // Mixtral renormalises, without a key for it. Its experts have the width of a dense block.
        if keys.find::<u32>("expert_count")?.unwrap_or(0) > 0 {
            config.experts = Some(Experts::read(keys, config.ffn)?);
        }
        Ok(())
    },
};
