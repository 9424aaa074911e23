//! AMD's libraries: one module and one row in [`VENDORS`] for each.
//!
//! All code that treats all libraries alike reads this list: a target's open libraries, a queue's handles,
//! the survey of a machine, the known defects, and the names allowed in policies. Nothing here knows ops or
//! tensors; `providers` says which ops a library computes.
mod denial;
mod handle;
mod hipblaslt;
mod library;
mod miopen;
mod rocblas;

pub use denial::Denial;

pub(crate) use denial::{Installed, denied};
pub(crate) use handle::Handles;
pub(crate) use hipblaslt::{Factor, HipBlasLtLibrary, Product, Types};
pub(crate) use library::{AnyLibrary, Failure, Lib, Vendor, check};
pub(crate) use miopen::{Convolution, MiOpenLibrary};
pub(crate) use rocblas::RocBlasLibrary;

use crate::ProviderId;
use handle::{AnyHandle, QueueHandle};
use hip_sys::LoadError;
use hip_sys::hip;
use library::OpenLibrary;

/// The libraries, in the order of reports.
pub(crate) const VENDORS: &[Row] =
    &[row::<RocBlasLibrary>(), row::<HipBlasLtLibrary>(), row::<MiOpenLibrary>()];

/// A vendor without its type, as in the list.
pub(crate) struct Row {
    pub(crate) id: ProviderId,
    pub(crate) name: &'static str,
    pub(crate) denials: &'static [Denial],
    /// Opens the library that belongs to a HIP runtime.
    pub(crate) load: fn(&hip::Lib) -> Result<Box<dyn AnyLibrary>, LoadError>,
    /// A queue's handle, which is created on first use.
    handle: fn() -> Box<dyn AnyHandle>,
}

const fn row<V: Vendor>() -> Row {
    Row {
        id: V::ID,
        name: V::NAME,
        denials: V::DENIALS,
        load: |hip| Ok(Box::new(OpenLibrary::<V>(V::load(hip)?))),
        handle: || Box::new(QueueHandle::<V>::default()),
    }
}

/// Whether a provider is one of the libraries.
pub(crate) fn is_library(provider: ProviderId) -> bool {
    VENDORS.iter().any(|vendor| vendor.id == provider)
}

/// The denials of all libraries.
pub fn denials() -> impl Iterator<Item = &'static Denial> {
    VENDORS.iter().flat_map(|vendor| vendor.denials)
}

impl Default for Handles {
    fn default() -> Self {
        Handles::of(VENDORS.iter().map(|vendor| (vendor.handle)()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_name_their_denials() {
        for (at, row) in VENDORS.iter().enumerate() {
            assert!(VENDORS[..at].iter().all(|other| other.id != row.id), "{}", row.id);
            assert_ne!(row.id, ProviderId::HIP);
            assert!(row.denials.iter().all(|denial| denial.library == row.id), "{}", row.id);
        }
    }
}
