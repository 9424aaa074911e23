//! A vendor library's handle for one queue.
use super::library::{Failure, Lib, Vendor};
use crate::Result;
use crate::error::failed;
use crate::hip::{self, Device, DeviceMemory, LeasedStream, Purpose, Stream};
use crate::sync::Mutex;
use ops_core::Reason;
use std::any::Any;
use std::fmt;

/// The handles of one queue: libraries keep memory in a handle, so only one stream at a time may use it.
#[derive(Debug)]
pub(crate) struct Handles {
    handles: Vec<Box<dyn AnyHandle>>,
}

impl Handles {
    pub(super) fn of(handles: Vec<Box<dyn AnyHandle>>) -> Self {
        Handles { handles }
    }

    /// Calls the library with the handle that works on `stream`, the queue's stream, and with its device as
    /// the current one. `lib` is called to get the library when the handle is created.
    pub(crate) fn with<'l, V: Vendor, R>(
        &self,
        stream: &Stream,
        lib: impl FnOnce() -> Result<&'l Lib<V>, Reason>,
        call: impl FnMut(&Lib<V>, &mut V::Handle) -> Result<R, Failure>,
    ) -> Result<R> {
        let mut handles = self.handles.iter().map(|handle| -> &dyn Any { &**handle });
        match handles.find_map(|handle| handle.downcast_ref::<QueueHandle<V>>()) {
            Some(handle) => handle.with(stream, lib, call),
            None => Err(failed(
                "opening a library",
                format!("{} is not in the list of vendor libraries", V::NAME),
            )),
        }
    }

    /// Destroys the handles when the loan of the queue's stream ends. None can be created afterwards.
    #[cfg(feature = "rocm-rs")]
    pub(crate) fn close(&self) {
        self.handles.iter().for_each(|handle| handle.close());
    }
}

/// A [`QueueHandle`] without its type.
pub(super) trait AnyHandle: Any + Send + Sync + fmt::Debug {
    /// Destroys the handle, if there is one.
    #[cfg(feature = "rocm-rs")]
    fn close(&self);
}

/// The handle of one queue, created on first use. Only one call at a time uses it, since a handle has memory
/// of its own.
pub(super) struct QueueHandle<V: Vendor> {
    open: Mutex<Option<Open<V>>>,
}

struct Open<V: Vendor> {
    lib: Lib<V>,
    handle: V::Handle,
    /// Keeps alive the stream on which the handle works.
    stream: Stream,
    /// The handle's workspace, freed after the handle.
    _workspace: Option<DeviceMemory>,
    destroyed: bool,
}

// SAFETY: the libraries accept a handle from any thread as long as only one uses it at a time, which the lock
// around it ensures. Its pointers are never followed here, and the rest is plain data.
unsafe impl<V: Vendor> Send for Open<V> {}

impl<V: Vendor> QueueHandle<V> {
    fn with<'l, R>(
        &self,
        stream: &Stream,
        lib: impl FnOnce() -> Result<&'l Lib<V>, Reason>,
        mut call: impl FnMut(&Lib<V>, &mut V::Handle) -> Result<R, Failure>,
    ) -> Result<R> {
        let mut open = self.open.lock();
        // `close` takes the lock while no lease is held, so the lock comes before the lease here too.
        let leased = stream.lease("a library call")?;
        let open = match &mut *open {
            Some(open) => open,
            place => place.insert(Self::open(stream, &leased, lib)?),
        };
        let Open { lib, handle, .. } = open;
        let done = stream.device().with_room(|_| call(lib, handle));
        done.map_err(reported)
    }

    fn open<'l>(
        stream: &Stream,
        leased: &LeasedStream<'_>,
        lib: impl FnOnce() -> Result<&'l Lib<V>, Reason>,
    ) -> Result<Open<V>> {
        let lib = lib().map_err(|why| failed("opening a library", why))?.clone();
        // SAFETY: `Open` keeps the stream alive. The handle of a borrowed stream is used and destroyed under
        // a lease, or by `close` before the loan ends. A library is returned only if it has kernels for the
        // device.
        let created = stream.device().with_room(|_| unsafe { V::create(&lib, leased.handle) });
        let handle = created.map_err(reported)?;
        let mut open = Open { lib, handle, stream: stream.clone(), _workspace: None, destroyed: false };
        if let Some(set) = V::SET_WORKSPACE {
            let memory = DeviceMemory::new(stream, workspace_bytes(stream.device()))?;
            let access = memory.access(stream, Purpose::Write)?;
            let Open { lib, handle, .. } = &mut open;
            let set =
                // SAFETY: `Open` keeps the memory alive; it is freed after the handle and after the work of
                // the stream.
                stream.device().with_room(|_| unsafe { set(lib, handle, access.address(), memory.len()) });
            set.map_err(reported)?;
            drop(access);
            open._workspace = Some(memory);
        }
        Ok(open)
    }
}

/// The size of a handle's workspace: as much as rocBLAS allocates by itself, 32 MiB on a card of 16 GiB and
/// 128 MiB on large ones; less on smaller ones.
fn workspace_bytes(device: &Device) -> usize {
    (device.memory_limit() / 512).clamp(1, 128 << 20)
}

fn reported(Failure { call, status, .. }: Failure) -> crate::Error {
    failed(call, status)
}

impl<V: Vendor> AnyHandle for QueueHandle<V> {
    #[cfg(feature = "rocm-rs")]
    fn close(&self) {
        if let Some(mut open) = self.open.lock().take() {
            open.destroy();
        }
    }
}

impl<V: Vendor> Open<V> {
    /// Destroys the handle. The stream must be alive.
    fn destroy(&mut self) {
        if std::mem::replace(&mut self.destroyed, true) {
            return;
        }
        let device = self.stream.device();
        // SAFETY: the handle comes from `create`, and `destroyed` prevents destroying it twice.
        let destroyed = device.as_current(|| unsafe { V::destroy(&self.lib, &mut self.handle) });
        let error = match destroyed {
            Ok(Ok(())) => return,
            Ok(Err(Failure { call, status, .. })) => hip::Error::Library { call, status },
            Err(error) => error,
        };
        device.defer_library(error);
    }
}

impl<V: Vendor> Drop for Open<V> {
    fn drop(&mut self) {
        // Without a lease, the stream was returned before `close` and may no longer exist: leak the handle.
        let stream = self.stream.clone();
        if let Ok(_lease) = stream.lease("destroying a handle") {
            self.destroy();
        }
    }
}

impl<V: Vendor> Default for QueueHandle<V> {
    fn default() -> Self {
        QueueHandle { open: Mutex::new(None) }
    }
}

impl<V: Vendor> fmt::Debug for QueueHandle<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a handle of {}", V::NAME)
    }
}
