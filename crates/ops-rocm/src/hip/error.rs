//! What can go wrong between a program and its device.

use std::fmt;

use hip_sys::{LoadError, MissingSymbol};

use super::result::HipError;

/// hipRTC failed to compile a source, or failed in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The source's name.
    pub source: String,
    /// The architecture.
    pub gfx: String,
    /// The function that failed, with its status.
    pub failure: String,
    /// The compiler's output. hipRTC leaves it empty for some failures.
    pub log: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hipRTC failed to compile {} for {}: {}", self.source, self.gfx, self.failure)?;
        let log = self.log.trim();
        if log.is_empty() { write!(f, "; it left no log") } else { write!(f, "\n{log}") }
    }
}

impl std::error::Error for CompileError {}

/// An error of the HIP layer. Each text is a single line and includes advice if there is any.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A library could not be opened.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A HIP function failed, or the library lacks it.
    #[error(transparent)]
    Hip(#[from] HipError),
    /// The HIP runtime is installed but sees no device.
    #[error("no AMD GPU: {0}")]
    NoDevice(String),
    /// There is no device with this number.
    #[error("no device {ordinal}: the HIP runtime sees {count}, numbered from 0")]
    NoSuchDevice {
        /// The requested number.
        ordinal: u32,
        /// How many devices there are.
        count: u32,
    },
    /// Device memory is exhausted, and freeing the cache did not help.
    #[error(
        "out of device memory: {wanted} bytes wanted, {free} of {total} free, {in_use} in use by this process through \
         this device{}; use a smaller model or context, or end other programs on the GPU",
        .cap.map_or(String::new(), |cap| format!(", its cap is {cap}"))
    )]
    OutOfMemory {
        /// Bytes requested.
        wanted: usize,
        /// Free bytes on the device.
        free: usize,
        /// Total bytes on the device.
        total: usize,
        /// Bytes that live buffers of this device hold.
        in_use: usize,
        /// The cap set on the device's cache, if any.
        cap: Option<usize>,
    },
    /// A part of a buffer extends past its end.
    #[error("{call}: bytes {offset} to {offset} + {bytes} are not within a buffer of {len} bytes")]
    Range {
        /// The operation.
        call: &'static str,
        /// First byte.
        offset: usize,
        /// Number of bytes.
        bytes: usize,
        /// Size of the buffer in bytes.
        len: usize,
    },
    /// Two objects that must belong to the same device do not.
    #[error(
        "{call}: the stream belongs to device {stream}, the other object to device {owner}; use both on one device"
    )]
    OtherDevice {
        /// The operation.
        call: &'static str,
        /// The stream's device.
        stream: u32,
        /// The other object's device.
        owner: u32,
    },
    /// The stream was borrowed from other code, and its loan has ended.
    #[error(
        "{call}: the stream was borrowed and the loan has ended; fork a queue of your own before it does"
    )]
    LoanEnded {
        /// The operation.
        call: &'static str,
    },
    /// The call cannot be part of a recording.
    #[error("{call} cannot be recorded: {why}")]
    NotRecorded {
        /// The operation.
        call: &'static str,
        /// Why not, and what to do instead.
        why: &'static str,
    },
    /// A code object cannot be loaded on the device.
    #[error("a code object cannot be loaded on {gfx}: {source}; compile it for {gfx}")]
    Module {
        /// The device's architecture.
        gfx: String,
        /// HIP's status.
        source: HipError,
    },
    /// A module has no kernel of this name.
    #[error("the module has no kernel {kernel}: {source}")]
    NoKernel {
        /// The kernel.
        kernel: String,
        /// HIP's status.
        source: HipError,
    },
    /// The sizes of a launch are impossible.
    #[error("launch of {kernel}: {problem}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// What is wrong, with the limit.
        problem: String,
    },
    /// A text is not the name of an architecture.
    #[error("{0:?} is not an architecture of an AMD GPU, such as gfx1100 or gfx90a:xnack-")]
    BadGfx(String),
    /// A library that works on the device failed.
    #[error("{call} failed with {status}")]
    Library {
        /// The function.
        call: &'static str,
        /// Its status.
        status: String,
    },
    /// hipRTC failed to compile a source.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

impl From<MissingSymbol> for Error {
    fn from(missing: MissingSymbol) -> Error {
        Error::Hip(HipError::Missing(missing))
    }
}

/// The result of the HIP layer.
pub type Result<T> = std::result::Result<T, Error>;
