//! Runs these ops on streams and memory of the crate `rocm-rs`, without copies: feature `rocm-rs`.
//!
//! A [`Bridge`] is a backend on a stream of `rocm_rs::hip`, for the duration of a [`scope`](Bridge::scope);
//! [`tensor`](Bridge::tensor) and [`tensor_mut`](Bridge::tensor_mut) are views of its `DeviceMemory`, which
//! stays in place and keeps its owner. The functions of this module are the five most used ops, with plain
//! argument lists.
//!
//! ```no_run
//! use rocm_ops::ops::{NormOps, RmsNorm};
//! use rocm_ops::rocm::bridge::Bridge;
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
//! Work is enqueued on the stream, after everything already on it. Whatever uses the results elsewhere must
//! wait for it: by `Stream::synchronize`, or an event. `rocm-rs` frees memory with `hipFree`, which waits for
//! the device, so memory may be dropped while work on it is running.
//!
//! `rocm-rs` 0.5 destroys a stream when any copy of it is dropped: do not drop a cloned stream before its
//! last use. `rocm-rs` and this crate must load the same HIP runtime, from one ROCm installation.
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
    /// If `work` keeps clones of the backend, events or memory beyond the scope, they return errors instead
    /// of using the stream. Tensors allocated by the backend can still be used on other queues.
    ///
    /// # Errors
    /// As [`Rocm::new`], or an error of the work on the stream.
    pub fn scope<R>(stream: &theirs::Stream, work: impl FnOnce(&Bridge) -> R) -> Result<R> {
        let device = device()?;
        // SAFETY: the stream belongs to the current device, as its owner states. It is borrowed until this
        // function returns, and every way out, return or panic, ends the loan first: `open` is a local
        // variable that `work` never owns, so it cannot be forgotten.
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
    /// Ends the loan when `work` panics; otherwise it has already ended. Whoever catches the panic already
    /// has an error.
    fn drop(&mut self) {
        if let Err(error) = self.0.rocm.end_loan() {
            tracing::warn!("while returning a stream to rocm-rs: {error}");
        }
    }
}

/// The thread's current device. Each device is opened once.
fn device() -> Result<Rocm> {
    static DEVICES: Mutex<Option<HashMap<i32, Rocm>>> = Mutex::new(None);
    let current =
        theirs::Device::current().map_err(|error| failed("getting the device from rocm-rs", error))?.id();
    let mut devices = DEVICES.lock();
    let devices = devices.get_or_insert_default();
    if let Some(rocm) = devices.get(&current) {
        return Ok(rocm.clone());
    }
    let ordinal = u32::try_from(current).map_err(|_| failed("getting the device from rocm-rs", current))?;
    let rocm = Rocm::on(Device::open(ordinal)?)?;
    devices.insert(current, rocm.clone());
    Ok(rocm)
}

/// A queue on a stream, without waiting for it. It is kept under the stream's handle for as long as the
/// process lives.
///
/// If a handle is reused, the new stream is treated like the first. Memory allocated by this queue would have
/// to wait for the former stream's work; the functions here allocate none.
fn queue(stream: &theirs::Stream) -> Result<Rocm> {
    static QUEUES: Mutex<Option<HashMap<(u32, usize), Rocm>>> = Mutex::new(None);
    let rocm = device()?;
    let handle = stream.as_raw();
    let key = (rocm.device().info().ordinal, handle as usize);
    let mut queues = QUEUES.lock();
    let queues = queues.get_or_insert_default();
    let queue = queues.entry(key).or_insert_with(|| {
        // SAFETY: the stream is live for this call, and later calls reach this line only with a live stream
        // that has this handle; the value is never dropped.
        rocm.with_stream(unsafe { Stream::borrow_raw(rocm.device(), handle.cast()) })
    });
    Ok(queue.clone())
}
