//! Qwen 3: norms of the heads of query and key. Yang et al., 2025.
use super::Family;

pub(super) const FAMILY: Family = Family { name: "qwen3", adjust: |_, _| Ok(()) };
