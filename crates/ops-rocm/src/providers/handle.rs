//! A vendor library's handle for one queue.
use crate::choice::Target;
use crate::error::failed;
use crate::hip::{self, LeasedStream, Stream};
use crate::sync::Mutex;
use crate::{Result, Rocm};
use hip_sys::hip::hipStream_t;
use ops_core::Reason;
use std::fmt;

/// A function of a library that failed, with its status in words.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) call: &'static str,
    pub(crate) status: String,
}

/// A library whose functions take a handle.
pub(crate) trait Vendor: 'static {
    /// Its functions.
    type Lib: Clone + Send + Sync;
    /// The handle, a pointer that only the library follows.
    type Raw: Copy;

    /// The library, if it can be used on this target.
    fn lib(target: &Target) -> Result<&Self::Lib, Reason>;
    /// A handle for a stream, whose device is the thread's current one.
    ///
    /// # Safety
    /// The stream lives as long as the handle.
    unsafe fn create(lib: &Self::Lib, stream: hipStream_t) -> Result<Self::Raw, Failure>;
    /// Destroys a handle.
    ///
    /// # Safety
    /// The handle is of [`create`](Self::create), and used no more.
    unsafe fn destroy(lib: &Self::Lib, raw: Self::Raw) -> Result<(), Failure>;
}

/// The handle of one queue, made on first use. Calls take turns: a handle has memory of its own.
pub(crate) struct QueueHandle<V: Vendor> {
    open: Mutex<Option<Open<V>>>,
}

struct Open<V: Vendor> {
    lib: V::Lib,
    raw: V::Raw,
    /// The stream outlives the handle that works on it.
    stream: Stream,
    destroyed: bool,
}

// SAFETY: the libraries take a handle from any thread as long as one uses it at a time, which the lock around it sees
// to; the pointer is never followed here.
unsafe impl<V: Vendor> Send for Open<V> {}

impl<V: Vendor> QueueHandle<V> {
    /// Calls the library with the queue's device as the current one.
    pub(crate) fn with<R>(
        &self,
        rocm: &Rocm,
        call: impl FnOnce(&V::Lib, V::Raw) -> Result<R, Failure>,
    ) -> Result<R> {
        let mut open = self.open.lock();
        // The library works on the stream. The lock is held already, which `close` takes when no lease is left.
        let stream = rocm.stream().lease("a call of a library")?;
        let open = match &mut *open {
            Some(open) => open,
            place => place.insert(Self::open(rocm, &stream)?),
        };
        let done = rocm.device().as_current(|| call(&open.lib, open.raw))?;
        done.map_err(|Failure { call, status }| failed(call, status))
    }

    fn open(rocm: &Rocm, stream: &LeasedStream<'_>) -> Result<Open<V>> {
        let lib = V::lib(rocm.target()).map_err(|why| failed("opening a library", why))?.clone();
        // SAFETY: the result keeps the stream. Of a borrowed one, the handle is used and destroyed under a lease, or by
        // `close` before the loan ends.
        let raw = rocm.device().as_current(|| unsafe { V::create(&lib, stream.handle) })?;
        let raw = raw.map_err(|Failure { call, status }| failed(call, status))?;
        Ok(Open { lib, raw, stream: rocm.stream().clone(), destroyed: false })
    }

    /// Destroys the handle, as the loan of the queue's stream ends: no other is made.
    #[cfg(feature = "rocm-rs")]
    pub(crate) fn close(&self) {
        if let Some(mut open) = self.open.lock().take() {
            open.destroy();
        }
    }
}

impl<V: Vendor> Open<V> {
    /// Destroys the handle, whose stream lives.
    fn destroy(&mut self) {
        if std::mem::replace(&mut self.destroyed, true) {
            return;
        }
        let device = self.stream.device();
        // SAFETY: made by `create`, and let go of here.
        let destroyed = device.as_current(|| unsafe { V::destroy(&self.lib, self.raw) });
        let error = match destroyed {
            Ok(Ok(())) => return,
            Ok(Err(Failure { call, status })) => hip::Error::Library { call, status },
            Err(error) => error,
        };
        device.defer_library(error);
    }
}

impl<V: Vendor> Drop for Open<V> {
    fn drop(&mut self) {
        // The handle of a stream that was given back without `close` is left alone: the stream may be gone.
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
        f.write_str(std::any::type_name::<V>())
    }
}
