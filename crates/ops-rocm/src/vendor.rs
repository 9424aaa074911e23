//! AMD's libraries: one module each, and one row each in [`VENDORS`].
//!
//! Everything that handles all libraries alike reads the list: what a target has open, the handles of a queue, the
//! survey of a machine, the known faults, and the names that a policy may use. Nothing here knows ops or tensors; which
//! ops a library computes is said in `providers`.
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

/// The libraries, in the order in which reports list them.
pub(crate) const VENDORS: &[Row] =
    &[row::<RocBlasLibrary>(), row::<HipBlasLtLibrary>(), row::<MiOpenLibrary>()];

/// A vendor without its type: what the list says of it.
pub(crate) struct Row {
    pub(crate) id: ProviderId,
    pub(crate) name: &'static str,
    pub(crate) denials: &'static [Denial],
    /// Opens the library beside a HIP runtime.
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
