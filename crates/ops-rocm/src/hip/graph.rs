//! Graphs: recorded work that a single HIP call enqueues on a stream.

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hip_sys::hip::{hipGraph_t, hipGraphExec_t, hipMemcpyDeviceToDevice, hipStream_t};

use super::allocation::Allocation;
use super::capture_log::{CaptureLog, Recorder, Work};
use super::device::Device;
use super::error::Result;
use super::result::{Hip, HipError};
use super::stream::Stream;
use super::uses::Purpose;
use crate::sync::Mutex;

/// Recorded work of a stream, which [`replay`](Self::replay) enqueues again.
///
/// The graph keeps alive the memory that the work uses and the modules of its kernels.
#[derive(Debug)]
pub struct Graph {
    /// `None` if no work was recorded.
    exec: Option<Exec>,
    stream: Stream,
    /// Everything that the work uses.
    memory: Vec<(Arc<Allocation>, Purpose)>,
    _kept: Vec<Arc<dyn Any + Send + Sync>>,
    len: usize,
    launches: usize,
    /// A mark of this number comes after the last replay; 0 if there was none.
    last: AtomicU64,
    /// HIP allows only one call at a time on a graph.
    replaying: Mutex<()>,
}

/// HIP's handle of an executable graph.
#[derive(Debug)]
struct Exec(hipGraphExec_t);

// SAFETY: HIP's functions take a graph's handle from any thread, one at a time; the pointer is never followed here.
unsafe impl Send for Exec {}
// SAFETY: as above.
unsafe impl Sync for Exec {}

impl Recorder {
    /// Makes a graph from a recording.
    ///
    /// # Errors
    ///
    /// [`Error::NotRecorded`](super::Error::NotRecorded) for the first call that could not be recorded; errors from
    /// HIP.
    pub(crate) fn into_graph(self) -> Result<Graph> {
        let (stream, recording) = self.finish()?;
        let CaptureLog { work, memory, kept, .. } = recording;
        let exec = if work.is_empty() { None } else { Some(instantiate(stream.device(), &work)?) };
        let launches = work.iter().filter(|work| matches!(work, Work::Launch { .. })).count();
        Ok(Graph {
            exec,
            stream,
            memory: memory.into_values().collect(),
            _kept: kept,
            len: work.len(),
            launches,
            last: AtomicU64::new(0),
            replaying: Mutex::new(()),
        })
    }
}

impl Graph {
    /// The stream whose work was recorded.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
    /// Number of launches, fills and copies.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Number of kernels launched by a replay.
    pub fn launches(&self) -> usize {
        self.launches
    }

    /// Enqueues the recorded work on the stream, after conflicting uses of its memory on other streams.
    ///
    /// # Errors
    ///
    /// An error left by an earlier `Drop`; errors from HIP; [`Error::NotRecorded`](super::Error::NotRecorded)
    /// while this thread records the stream.
    pub fn replay(&self) -> Result<()> {
        let (stream, device) = (&self.stream, self.stream.device());
        stream.require_unrecorded("replay", "a graph cannot be part of a graph; record its calls instead")?;
        device.check()?;
        let Some(Exec(exec)) = &self.exec else { return Ok(()) };
        let one = self.replaying.lock();
        self.memory.iter().try_for_each(|(memory, purpose)| memory.order(stream, *purpose))?;
        let launched = stream.lease("replay").and_then(|stream| {
            // SAFETY: the graph is live, only one thread launches it, and it keeps alive what its work uses;
            // the stream is leased.
            Ok(device.with_room(|hip| unsafe { hip.graph_launch(*exec, stream.handle) })?)
        });
        self.memory.iter().for_each(|(memory, purpose)| memory.note(stream, *purpose));
        self.last.fetch_max(stream.track().next_mark(), Ordering::AcqRel);
        drop(one);
        launched
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let Some(Exec(exec)) = self.exec.take() else { return };
        let (device, last) = (self.stream.device(), *self.last.get_mut());
        // The work of a replay may still be running, and HIP does not say that destroying waits for it.
        let waited = if last == 0 { Ok(()) } else { device.wait_for(self.stream.track(), last) };
        // SAFETY: the graph comes from HIP and is not used again; none of its work is running.
        let destroyed = waited.and_then(|()| device.enter(|hip| unsafe { hip.graph_exec_destroy(exec) }));
        if let Err(error) = destroyed {
            device.defer(error);
        }
    }
}

/// Makes an executable HIP graph. The work is captured on a separate stream that nothing else knows of:
/// whatever happens, other streams are unaffected.
fn instantiate(device: &Device, work: &[Work]) -> Result<Exec> {
    let stream = device.with_room(|hip| hip.stream_create())?;
    let captured = device.capture(|hip| capture(hip, stream, work));
    // SAFETY: made above, and known to no other code.
    if let Err(error) = device.enter(|hip| unsafe { hip.stream_destroy(stream) }) {
        device.defer(error);
    }
    let graph = captured?;
    // SAFETY: captured above.
    let exec = device.with_room(|hip| unsafe { hip.graph_instantiate(graph) });
    // SAFETY: as above; the executable graph does not need it.
    if let Err(error) = device.enter(|hip| unsafe { hip.graph_destroy(graph) }) {
        device.defer(error);
    }
    Ok(Exec(exec?))
}

/// Captures the work on a stream. The thread must not make other HIP calls meanwhile.
fn capture(hip: &Hip, stream: hipStream_t, work: &[Work]) -> std::result::Result<hipGraph_t, HipError> {
    // SAFETY: the stream is live and known to no other code.
    unsafe { hip.stream_begin_capture(stream) }?;
    let enqueued = work.iter().try_for_each(|work| enqueue(hip, stream, work));
    // SAFETY: as above. Called even after a failure, since the stream would otherwise stay captured forever.
    let ended = unsafe { hip.stream_end_capture(stream) };
    match (enqueued, ended) {
        (Ok(()), ended) => ended,
        (Err(error), Ok(graph)) => {
            // SAFETY: just made, and not needed. The first error is the one to report.
            let _ = unsafe { hip.graph_destroy(graph) };
            Err(error)
        }
        (Err(error), Err(_)) => Err(error),
    }
}

/// Enqueues recorded work on the stream that is being captured.
fn enqueue(hip: &Hip, stream: hipStream_t, work: &Work) -> std::result::Result<(), HipError> {
    match *work {
        Work::Launch { function, grid, block, dynamic_lds, ref args } => {
            // SAFETY: recorded by `Function::launch` after its checks; the recording keeps module and memory
            // alive.
            unsafe { hip.module_launch_kernel(function, grid, block, dynamic_lds, stream, args) }
        }
        Work::Fill { to, value, bytes } => {
            // SAFETY: recorded by `DeviceMemory::fill` after its checks; the recording keeps the memory
            // alive.
            unsafe { hip.memset_async(to as *mut c_void, value, bytes, stream) }
        }
        Work::Copy { to, from, bytes } => {
            let (to, from) = (to as *mut c_void, from as *const c_void);
            // SAFETY: recorded by `DeviceMemory::copy_from` after its checks; the recording keeps both
            // memories alive.
            unsafe { hip.memcpy_async(to, from, bytes, hipMemcpyDeviceToDevice, stream) }
        }
    }
}
