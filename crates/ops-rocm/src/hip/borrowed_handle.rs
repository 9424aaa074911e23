//! Borrowed streams: streams that other code owns, and until when they may be used.
//!
//! The owner of a stream may destroy it when the loan ends, although copies of it still exist in queues,
//! events and memory. So every call that passes a borrowed stream to HIP, or an event recorded on one, holds
//! a [`Lease`]. The end of the loan waits for all leases and for the stream's work; after that no lease is
//! granted.

use std::sync::Arc;

use crate::sync::{ReadGuard, RwLock};

/// Whether a stream may be used: this crate's own streams always, those of other code until the loan ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Loan {
    /// For other code's stream: whether the loan has ended.
    ended: Option<Arc<RwLock<bool>>>,
}

/// Keeps the loan from ending. Hold it for one call to HIP or to a library, and meanwhile take no lock whose
/// holder may be waiting for the end of a loan.
#[derive(Debug)]
pub(super) struct Lease<'l> {
    _open: Option<ReadGuard<'l, bool>>,
}

impl Loan {
    /// A loan of a stream that other code made and keeps.
    pub(super) fn borrowed() -> Loan {
        Loan { ended: Some(Arc::default()) }
    }

    pub(super) fn is_borrowed(&self) -> bool {
        self.ended.is_some()
    }

    /// Permission to use the stream; `None` if the loan has ended or is about to.
    ///
    /// It never waits, so a lease may be taken while another is held: only the end of the loan locks for
    /// writing, so if the lock is not available at once, the end has begun. While the end waits for other
    /// leases, a later attempt may succeed.
    pub(super) fn lease(&self) -> Option<Lease<'_>> {
        let Some(ended) = &self.ended else { return Some(Lease { _open: None }) };
        let guard = ended.try_read()?;
        (!*guard).then_some(Lease { _open: Some(guard) })
    }

    /// The same, but if there is no lease, the stream's work is over when this returns. The caller must not
    /// hold a lease of the stream.
    pub(super) fn lease_or_wait(&self) -> Option<Lease<'_>> {
        self.lease().or_else(|| {
            self.wait_for_end();
            None
        })
    }

    /// Waits for an end that has begun.
    pub(super) fn wait_for_end(&self) {
        let Some(ended) = &self.ended else { return };
        // A reader may overtake the ending thread that waits for the lock.
        while !*ended.read() {
            std::thread::yield_now();
        }
    }

    /// Ends the loan, unless it has ended before: waits for all leases, then calls `finish`, which must wait
    /// for the stream's work.
    pub(super) fn end(&self, finish: impl FnOnce()) {
        if let Some(ended) = &self.ended {
            let mut ended = ended.write();
            if !*ended {
                *ended = true;
                finish();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn the_end_waits_for_leases_and_none_begins_meanwhile() {
        let (loan, over) = (Loan::borrowed(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let lease = loan.lease().unwrap();
            scope.spawn(|| loan.end(|| over.store(true, Ordering::SeqCst)));
            // A second lease on the same thread is refused without waiting, once the other thread is ending
            // the loan.
            while loan.lease().is_some() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!over.load(Ordering::SeqCst), "a lease is held");
            drop(lease);
            // Until the other thread has the lock, leases may be granted again.
            while let Some(lease) = loan.lease_or_wait() {
                drop(lease);
                std::thread::yield_now();
            }
            assert!(over.load(Ordering::SeqCst));
        });
        loan.end(|| unreachable!("it has ended"));
        assert!(loan.lease().is_none());
    }

    #[test]
    fn a_stream_of_this_crate_is_not_lent() {
        let loan = Loan::default();
        loan.end(|| unreachable!("there is no loan"));
        assert!(loan.lease().is_some());
    }
}
