//! Phi 3 with its short context: query, key and value in one matrix, gate and up in another. Abdin et al., 2024.
//!
//! The long context has factors for each frequency that depend on the length of the text (`rope_factors_long.weight`), which is
//! refused.
use super::Family;

pub(super) const FAMILY: Family = Family { name: "phi3", adjust: |_, _| Ok(()) };
