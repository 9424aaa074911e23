//! These ops on streams and memory of the crate `rocm-rs`, without copies: feature `rocm-rs`.
//!
//! A [`Bridge`] lends a backend on a stream of `rocm_rs::hip` for a [`scope`](Bridge::scope);
//! [`tensor`](Bridge::tensor) and [`tensor_mut`](Bridge::tensor_mut) are views of its `DeviceMemory`, which stays where
//! it is and stays its owner's. The functions of this module are the five most asked for, with plain argument lists.
//!
//! ```no_run
//! use ops_core::ops::{NormOps, RmsNorm};
//! use ops_rocm::bridge::Bridge;
//! use rocm_rs::hip::{Device, DeviceMemory};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stream = Device::current()?.get_stream()?;
//! let (x, w) = (DeviceMemory::<f32>::new(8 * 4096)?, DeviceMemory::<f32>::new(4096)?);
//! let mut y = DeviceMemory::<f32>::new(8 * 4096)?;
//!
//! Bridge::scope(&stream, |bridge| {
//!     let (x, w) = (bridge.tensor(&x, &[8, 4096])?, bridge.tensor(&w, &[4096])?);
//!     let mut y = bridge.tensor_mut(&mut y, &[8, 4096])?;
//!     bridge.backend().rms_norm_into(x.view()?, w.view()?, y.view()?, RmsNorm::eps(1e-5))
//! })??;
//! # Ok(())
//! # }
//! ```
//!
//! # Order and life
//!
//! Work is enqueued on the stream and runs behind what the stream was given before. What uses the results elsewhere has
//! to come after it: `Stream::synchronize`, or an event. `rocm-rs` frees memory with `hipFree`, which waits for the
//! device, so memory may be dropped while work on it is going on.
//!
//! `rocm-rs` 0.5 destroys a stream with every copy of it that is dropped: a stream that was cloned must not be dropped
//! before its last use. Its copy of the HIP runtime and this crate's must be one: of the same ROCm.
mod functions;
mod tensor;

pub use functions::{layer_norm_f32, rms_norm_f32, rope_f32, rope_i_f32, rope_thd_f32};
pub use tensor::{Borrowed, BorrowedMut};

use crate::error::failed;
use crate::hip::{Device, Stream};
use crate::sync::Mutex;
use crate::{Result, Rocm};
use ops_core::{Element, Layout};
use rocm_rs::hip::{self as theirs, DeviceMemory};
use std::collections::HashMap;

/// A queue on a stream of `rocm-rs`, in a [`scope`](Bridge::scope).
#[derive(Debug)]
pub struct Bridge {
    rocm: Rocm,
}

impl Bridge {
    /// Calls `work` with a queue on a stream of the thread's current device, then waits for the stream.
    ///
    /// What `work` keeps of the queue outlives the scope, and is of no use after it: a clone of the backend, an event or
    /// memory gives an error instead of using the stream. Tensors of the backend's own can be used on other queues.
    ///
    /// # Errors
    /// As [`Rocm::new`]; those of the work on the stream.
    pub fn scope<R>(stream: &theirs::Stream, work: impl FnOnce(&Bridge) -> R) -> Result<R> {
        let device = device()?;
        // SAFETY: the stream is the current device's, as its owner says. It is borrowed until this function is left, and
        // no way out of here, return or panic, leads past the end of the loan: `open` is a local variable that `work`
        // never owns, so that nobody can forget it.
        let stream = unsafe { Stream::borrow_raw(device.device(), stream.as_raw().cast()) };
        let open = Open(Bridge { rocm: device.with_stream(stream) });
        let value = work(&open.0);
        open.0.rocm.end_loan()?;
        Ok(value)
    }

    /// The backend, for calling ops.
    pub fn backend(&self) -> &Rocm {
        &self.rocm
    }

    /// Memory as a tensor, for reading.
    ///
    /// # Errors
    /// The shape has more elements than the memory, or none can have it.
    pub fn tensor<'m, T: Element>(
        &self,
        memory: &'m DeviceMemory<T>,
        dims: &[usize],
    ) -> Result<Borrowed<'m, T>> {
        Borrowed::new(self.rocm.stream(), memory, Layout::contiguous(dims)?)
    }

    /// Memory as a tensor, for writing.
    ///
    /// # Errors
    /// As [`tensor`](Bridge::tensor).
    pub fn tensor_mut<'m, T: Element>(
        &self,
        memory: &'m mut DeviceMemory<T>,
        dims: &[usize],
    ) -> Result<BorrowedMut<'m, T>> {
        BorrowedMut::new(self.rocm.stream(), memory, Layout::contiguous(dims)?)
    }
}

/// A bridge in its scope.
struct Open(Bridge);

impl Drop for Open {
    /// Ends the loan when `work` panics; else it has ended. Whoever catches the panic has an error already.
    fn drop(&mut self) {
        if let Err(error) = self.0.rocm.end_loan() {
            tracing::warn!("while a stream of rocm-rs was given back: {error}");
        }
    }
}

/// The thread's current device, opened once for each.
fn device() -> Result<Rocm> {
    static DEVICES: Mutex<Option<HashMap<i32, Rocm>>> = Mutex::new(None);
    let current =
        theirs::Device::current().map_err(|error| failed("asking rocm-rs for its device", error))?.id();
    let mut devices = DEVICES.lock();
    let devices = devices.get_or_insert_default();
    if let Some(rocm) = devices.get(&current) {
        return Ok(rocm.clone());
    }
    let ordinal = u32::try_from(current).map_err(|_| failed("asking rocm-rs for its device", current))?;
    let rocm = Rocm::on(Device::open(ordinal)?)?;
    devices.insert(current, rocm.clone());
    Ok(rocm)
}

/// A queue on a stream that is not waited for: kept for as long as the process lives, under the stream's handle.
///
/// A handle that is given out again is a stream like the first. Memory of this queue's own would have to wait for the
/// former stream's work; the functions here ask for none.
fn queue(stream: &theirs::Stream) -> Result<Rocm> {
    static QUEUES: Mutex<Option<HashMap<(u32, usize), Rocm>>> = Mutex::new(None);
    let rocm = device()?;
    let handle = stream.as_raw();
    let key = (rocm.device().info().ordinal, handle as usize);
    let mut queues = QUEUES.lock();
    let queues = queues.get_or_insert_default();
    let queue = queues.entry(key).or_insert_with(|| {
        // SAFETY: the stream is live for this call, and later calls come here only with a live stream of this handle; the
        // value is never dropped.
        rocm.with_stream(unsafe { Stream::borrow_raw(rocm.device(), handle.cast()) })
    });
    Ok(queue.clone())
}
