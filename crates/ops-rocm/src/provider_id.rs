//! Names of providers.
use std::fmt;

/// The name of a provider, in policies, messages and reports.
///
/// A vendor library's id is declared with the library, in its module under `vendor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProviderId(&'static str);

impl ProviderId {
    /// This project's kernels.
    pub const HIP: ProviderId = ProviderId("hip");
    /// RCCL, for the collectives of a group.
    pub const RCCL: ProviderId = ProviderId("rccl");
    /// The parts of a fused op.
    pub const PARTS: ProviderId = ProviderId("parts");

    /// A provider of this name.
    pub const fn new(name: &'static str) -> Self {
        ProviderId(name)
    }
    /// The name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
