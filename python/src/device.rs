//! Queues: one on each device, and one on each stream of other code.
use crate::errors;
use pyo3::prelude::*;
use rocm_ops::{Backend, Cpu, EitherHost, Rocm};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The processor.
pub(crate) fn cpu() -> &'static EitherHost {
    static CPU: LazyLock<EitherHost> = LazyLock::new(|| EitherHost::Cpu(Cpu::new()));
    &CPU
}

/// Queues by their device, and by the handle of the stream if it is not ours.
type Queues = Mutex<HashMap<(u32, Option<usize>), Rocm>>;
static QUEUES: LazyLock<Queues> = LazyLock::new(Queues::default);

/// Our own queue on a device. It is opened once.
pub(crate) fn own(id: u32) -> PyResult<Rocm> {
    // No code that panics runs under the lock, and a map is as good after a panic.
    let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(queue) = queues.get(&(id, None)) {
        return Ok(queue.clone());
    }
    let queue = Rocm::builder().ordinal(id).build().map_err(errors::op)?;
    queues.insert((id, None), queue.clone());
    Ok(queue)
}

/// A queue on a stream of other code, for the call at hand. Handles are kept: if one is reused, the new stream is treated like the first.
///
/// # Safety
/// The handle is a live stream of the device.
pub(crate) unsafe fn on_stream(id: u32, handle: usize) -> PyResult<Rocm> {
    let own = own(id)?;
    let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    let queue = queues.entry((id, Some(handle))).or_insert_with(|| {
        // SAFETY: the stream is live, as the caller states, and later calls reach this queue only with a live stream of this
        // handle. The queue is never dropped, because the map is static.
        unsafe { own.on_stream(std::ptr::with_exposed_provenance_mut(handle)) }
    });
    Ok(queue.clone())
}

/// Waits for our own queue on a device, if there is one.
pub(crate) fn synchronize(id: u32) -> PyResult<()> {
    let queue = QUEUES.lock().unwrap_or_else(PoisonError::into_inner).get(&(id, None)).cloned();
    queue.map_or(Ok(()), |queue| queue.synchronize().map_err(errors::op))
}

/// Waits for every queue, and reports what kernels found wrong, such as an index out of range.
#[pyfunction(name = "synchronize")]
pub(crate) fn synchronize_all(py: Python<'_>) -> PyResult<()> {
    let queues: Vec<Rocm> = QUEUES.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
    py.detach(|| queues.iter().try_for_each(Backend::synchronize)).map_err(errors::op)
}
