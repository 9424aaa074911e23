//! AMD's libraries: one module each, and one row each in [`VENDORS`].
//!
//! Everything that handles all libraries alike reads the list: what a target has open, the handles of a queue, the
//! survey of a machine, the known faults, and the names that a policy may use. Nothing here knows ops or tensors; which
//! ops a library computes is said in `providers`.
mod denial;
mod handle;
mod miopen;
mod rocblas;

pub use denial::{Denial, denials};

pub(crate) use denial::denied;
pub(crate) use handle::{Failure, Handles, check};
pub(crate) use miopen::MiOpenLibrary;
pub(crate) use rocblas::RocBlasLibrary;

use crate::ProviderId;
use handle::{AnyHandle, QueueHandle};
use hip_sys::hip::{self, hipStream_t};
use hip_sys::{LoadError, loader};
use std::any::Any;
use std::ffi::CStr;
use std::fmt;
use std::path::Path;

/// The libraries, in the order in which reports list them.
pub(crate) const VENDORS: &[Row] = &[row::<RocBlasLibrary>(), row::<MiOpenLibrary>()];

/// A library that computes ops through a handle for each queue.
pub(crate) trait Vendor: Send + Sync + 'static {
    /// The provider that computes with it.
    const ID: ProviderId;
    /// Its name as AMD writes it.
    const NAME: &'static str;
    /// Where it is known to give wrong results.
    const DENIALS: &'static [Denial];
    /// The status of a call that succeeded.
    const SUCCESS: u32;
    /// Its functions, as its `-sys` crate binds them.
    type Functions: Send + Sync + 'static;
    /// Its handle, a pointer that only the library follows.
    type Handle: Copy;

    /// Opens the library that belongs to a HIP runtime.
    fn load(hip: &hip::Lib) -> Result<Lib<Self>, LoadError>;

    /// Checks that the library has kernels for an architecture, if its kernels are files of their own.
    ///
    /// # Errors
    /// What is missing, and what to do.
    fn check_kernels(_lib: &Lib<Self>, _gfx: &str) -> Result<(), String> {
        Ok(())
    }

    /// The library's name for a status.
    fn status_name(lib: &Lib<Self>, status: u32) -> Option<&'static CStr>;

    /// Makes a handle that works on a stream, whose device is the thread's current one.
    ///
    /// # Safety
    /// The stream outlives the handle. [`check_kernels`](Self::check_kernels) has succeeded for the device.
    unsafe fn create(lib: &Lib<Self>, stream: hipStream_t) -> Result<Self::Handle, Failure>;

    /// Destroys a handle.
    ///
    /// # Safety
    /// The handle comes from [`create`](Self::create) and is not used again.
    unsafe fn destroy(lib: &Lib<Self>, handle: Self::Handle) -> Result<(), Failure>;
}

/// An open vendor library.
pub(crate) type Lib<V> = loader::Library<<V as Vendor>::Functions>;

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

/// An open library without its type.
pub(crate) trait AnyLibrary: Any + Send + Sync + fmt::Debug {
    /// The file.
    fn path(&self) -> &Path;
    /// The version that the library reports.
    fn version(&self) -> Option<loader::Version>;
    /// As [`Vendor::check_kernels`].
    fn check_kernels(&self, gfx: &str) -> Result<(), String>;
}

struct OpenLibrary<V: Vendor>(Lib<V>);

impl<V: Vendor> AnyLibrary for OpenLibrary<V> {
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn version(&self) -> Option<loader::Version> {
        self.0.version()
    }
    fn check_kernels(&self, gfx: &str) -> Result<(), String> {
        V::check_kernels(&self.0, gfx)
    }
}

impl<V: Vendor> fmt::Debug for OpenLibrary<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", V::NAME, self.0.path().display())
    }
}

impl dyn AnyLibrary {
    /// The library by its type, if it is this vendor's.
    pub(crate) fn of<V: Vendor>(&self) -> Option<&Lib<V>> {
        let any: &dyn Any = self;
        any.downcast_ref::<OpenLibrary<V>>().map(|open| &open.0)
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
