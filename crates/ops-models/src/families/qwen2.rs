//! Qwen 2 and 2.5: biases on query, key and value. Yang et al., 2024.
use super::Family;

pub(super) const FAMILY: Family = Family { name: "qwen2", adjust: |_, _| Ok(()) };
