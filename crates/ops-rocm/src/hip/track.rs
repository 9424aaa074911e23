//! A stream of HIP's, with what stays with it from one owner to the next.

use super::loan::Loan;
use super::raw::{IndexMemory, RawStream};
use crate::sync::Mutex;

/// A stream of HIP's. The device keeps it when its owner drops it, and gives it to the next.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) raw: RawStream,
    /// Other code owns a borrowed stream: this crate neither destroys nor reuses it.
    pub(super) loan: Loan,
    /// Where the stream's kernels report an index out of range, once one has to. A former owner's kernels may still
    /// write to it.
    pub(super) index_memory: Mutex<Option<IndexMemory>>,
}

impl Track {
    pub(super) fn new(raw: RawStream, loan: Loan) -> Track {
        Track { raw, loan, index_memory: Mutex::default() }
    }
}
