//! How outputs are written, and in what blocks.

/// How outputs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Store {
    /// With normal stores, for outputs that are read again soon or fit the last-level cache.
    #[default]
    Cached,
    /// With non-temporal stores, for outputs larger than the last-level cache. This saves reading lines that are overwritten
    /// whole.
    Stream,
}

/// Elements per block of a streamed output or of converted operands; two arrays of this size stay in the L1 cache.
pub(crate) const BLOCK: usize = 1024;
