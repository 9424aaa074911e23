//! Units of kernels that were loaded, and where they came from.
use std::time::Duration;

/// Where a kernel unit came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelOrigin {
    /// It was loaded before.
    Loaded,
    /// It was compiled with this program.
    Embedded,
    /// It was compiled earlier and cached on disk.
    Cached,
    /// hipRTC compiled it now, in this process.
    Compiled,
    /// hipRTC compiled it now, in another process of this program.
    CompiledByHelper,
}

/// A unit: kernels that are compiled and loaded together.
#[derive(Clone, Debug)]
pub struct LoadedUnit {
    /// Its name, such as `norm-rms-wave-f16-f32`.
    pub name: String,
    /// Where it came from.
    pub origin: KernelOrigin,
    /// How long that took.
    pub time: Duration,
}
