//! The description of each vendor library.
use super::denial::Denial;
use crate::hip::{Exhaustion, HipError};
use crate::{ProviderId, Result};
use hip_sys::hip::{self, hipStream_t};
use hip_sys::{LoadError, MissingSymbol, loader};
use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};

/// A library that computes ops through one handle per queue.
pub(crate) trait Vendor: Send + Sync + 'static {
    /// The provider that uses it.
    const ID: ProviderId;
    /// Its name as AMD writes it.
    const NAME: &'static str;
    /// Problems for which it is known to give wrong results.
    const DENIALS: &'static [Denial];
    /// Its version with [`Target::ASSUMED_ROCM`](crate::Target::ASSUMED_ROCM).
    const ASSUMED: loader::Version;
    /// The status of a call that succeeded.
    const SUCCESS: u32;
    /// Its functions, as its `-sys` crate binds them.
    type Functions: Send + Sync + 'static;
    /// Its handle: pointers that only the library follows, and data kept with them.
    type Handle;

    /// Opens the library that belongs to a HIP runtime.
    fn load(hip: &hip::Lib) -> Result<Lib<Self>, LoadError>;

    /// Checks that the library has kernels for an architecture, if its kernels are in separate files.
    ///
    /// # Errors
    /// What is missing, and how to fix it.
    fn check_kernels(_lib: &Lib<Self>, _gfx: &str) -> Result<(), String> {
        Ok(())
    }

    /// The status of a call that found device memory exhausted.
    const EXHAUSTED: u32;

    /// Sets a handle's workspace, if the library can use the caller's memory. Otherwise it allocates its own
    /// from HIP, which does not count towards the memory cap.
    const SET_WORKSPACE: Option<SetWorkspace<Self>>;

    /// The library's name for a status.
    fn status_name(lib: &Lib<Self>, status: u32) -> Option<String>;

    /// Makes a handle that works on a stream, whose device is the thread's current one.
    ///
    /// # Safety
    /// The stream outlives the handle. [`check_kernels`](Self::check_kernels) has succeeded for the device.
    unsafe fn create(lib: &Lib<Self>, stream: hipStream_t) -> Result<Self::Handle, Failure>;

    /// Destroys a handle.
    ///
    /// # Safety
    /// The handle comes from [`create`](Self::create) and is not used again.
    unsafe fn destroy(lib: &Lib<Self>, handle: &mut Self::Handle) -> Result<(), Failure>;
}

/// See [`Vendor::SET_WORKSPACE`].
///
/// # Safety
/// The address is memory of this size on the handle's device, and remains so until the handle is destroyed.
pub(crate) type SetWorkspace<V> =
    unsafe fn(&Lib<V>, &mut <V as Vendor>::Handle, *mut c_void, usize) -> Result<(), Failure>;

/// An open vendor library.
pub(crate) type Lib<V> = loader::Library<<V as Vendor>::Functions>;

/// A failed library call.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) call: &'static str,
    /// The name and number of the status, or which function is missing.
    pub(crate) status: String,
    /// Whether device memory is exhausted.
    exhausted: bool,
}

impl Failure {
    /// A failure that the library did not report as a status.
    pub(crate) fn of(call: &'static str, status: impl Into<String>) -> Failure {
        Failure { call, status: status.into(), exhausted: false }
    }
}

impl From<HipError> for Failure {
    fn from(error: HipError) -> Failure {
        let status = match &error {
            HipError::Status { code, name, .. } => format!("{name} ({code})"),
            HipError::Missing(_) => error.to_string(),
        };
        Failure { call: error.call(), status, exhausted: error.is_exhaustion() }
    }
}

impl Exhaustion for Failure {
    fn is_exhaustion(&self) -> bool {
        self.exhausted
    }
}

/// Turns the status of a call into a result.
pub(crate) fn check<V: Vendor>(
    lib: &Lib<V>,
    call: &'static str,
    status: Result<u32, MissingSymbol>,
) -> Result<(), Failure> {
    let exhausted = status.as_ref().is_ok_and(|code| *code == V::EXHAUSTED);
    let status = match status {
        Ok(code) if code == V::SUCCESS => return Ok(()),
        Ok(code) => {
            let name = V::status_name(lib, code);
            format!("{} ({code})", name.as_deref().unwrap_or("an unknown status"))
        }
        Err(missing) => missing.to_string(),
    };
    Err(Failure { call, status, exhausted })
}

/// An open library without its type.
pub(crate) trait AnyLibrary: Any + Send + Sync + fmt::Debug {
    /// The file.
    fn path(&self) -> &Path;
    /// The version that the library reports.
    fn version(&self) -> Option<loader::Version>;
    /// Other files of this library that the process has loaded.
    fn copies(&self) -> Vec<PathBuf>;
    /// As [`Vendor::check_kernels`].
    fn check_kernels(&self, gfx: &str) -> Result<(), String>;
}

pub(super) struct OpenLibrary<V: Vendor>(pub(super) Lib<V>);

impl<V: Vendor> AnyLibrary for OpenLibrary<V> {
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn version(&self) -> Option<loader::Version> {
        self.0.version()
    }
    fn copies(&self) -> Vec<PathBuf> {
        self.0.copies()
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
