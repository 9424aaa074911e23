//! Devices, streams, events, memory, modules and launches over the HIP runtime.
//!
//! There are three layers: `hip-sys` is the C interface, [`result`] wraps each of its functions to return a
//! `Result`, and the types of this module own their handles and keep alive what those need.
//!
//! ```no_run
//! use rocm_ops::rocm::hip::{Device, DeviceMemory};
//!
//! let device = Device::open_default()?;
//! let stream = device.stream()?;
//! let mut memory = DeviceMemory::new(&stream, 1024)?;
//! memory.write(&stream, 0, &[7; 1024])?;
//! assert_eq!(memory.read(&stream, 0, 1024)?, [7; 1024]);
//! # Ok::<(), rocm_ops::rocm::hip::Error>(())
//! ```
//!
//! # Layers
//!
//! A module uses those above it in this list, and none below:
//!
//! 1. `result`; `borrowed_handle`; `raw`, the handles of streams and events; `track`, the progress of a stream;
//!    `diagnosis`; `cards`, then `links`
//! 2. `error`, `gfx`, `info`; `allocator` and `pinned`, the caches of device and host memory
//! 3. `device`, which owns the caches, records marks and waits for them
//! 4. `event`, then `stream`
//! 5. `uses`, ordering between work on different streams; `allocation`; `capture_log`, work that is recorded
//!    instead of enqueued
//! 6. `staging`, the copies; `module`
//! 7. `memory`, `shared_memory`; `kernel_memory`, then `index_record`; `rtc`; `graph`, made from a capture log
//!
//! # Order
//!
//! A stream runs its work in order; events order work on different streams. A [`DeviceMemory`] has a home
//! stream, and remembers its last uses there and elsewhere. A reader on another stream waits for the last
//! write, a writer for all last uses, and the home stream for all of them before the memory is reused, so
//! Rust's borrows are enough to prevent data races. An event is recorded only when something has to wait for
//! a use, and no stream waits twice for the same use. Dropped memory goes back to a cache and is reused on
//! the same stream, whose order makes this correct without waiting.
//!
//! # Errors
//!
//! No function of this module panics because of a device, a library or a caller. A `Drop` cannot return its
//! error: the device keeps it, and the next call that can fail returns it.
//!
//! # Threads
//!
//! HIP's functions may be called from any thread, with any handle. Only the current device is per thread:
//! each call that depends on it sets it and then restores the previous one. All types here are `Send` and
//! `Sync`.

mod allocation;
mod allocator;
mod borrowed_handle;
mod capture_log;
mod cards;
mod device;
mod diagnosis;
mod error;
mod event;
mod gfx;
mod graph;
mod index_record;
mod info;
mod kernel_memory;
mod links;
mod memory;
mod module;
mod pinned;
mod raw;
pub mod result;
mod rtc;
mod shared_memory;
mod staging;
mod stream;
mod track;
mod uses;

pub(crate) use allocator::Exhaustion;
pub use allocator::MemoryStats;
pub use cards::{Card, cards, installation};
pub use device::Device;
pub use error::{CompileError, Error, Result};
pub use event::Event;
pub use gfx::Gfx;
pub use graph::Graph;
pub use index_record::{IndexCheck, IndexFault};
pub use info::{DeviceInfo, remarks};
pub use links::{Link, links};
pub use memory::{Access, DeviceMemory};
pub use module::{CodeObject, Dim, Function, KernelArgs, Launch, Module};
pub(crate) use raw::ARRIVALS;
pub use result::{Hip, HipError};
pub use rtc::{Compiler, Source};
pub(crate) use shared_memory::SharedMemory;
pub use staging::Download;
pub(crate) use stream::LeasedStream;
pub use stream::Stream;
pub use uses::Purpose;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_may_be_sent_to_and_shared_with_other_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<(Device, Stream, Event, DeviceMemory, Access<'_>, Download)>();
        shared::<(Module, Function, CodeObject, Compiler, IndexCheck<'_>, Error)>();
    }
}
