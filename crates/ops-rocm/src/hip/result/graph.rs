//! Capture and graphs.

use std::ptr::null_mut;

use super::{Hip, Result, sys};

/// Graphs. They belong to the calling thread's current device.
impl Hip {
    /// Begins to capture a stream: work enqueued on it does not run but becomes a graph. Until the end, this
    /// thread must not make calls that HIP forbids during a capture, such as allocations and waits; other
    /// threads may.
    ///
    /// # Safety
    ///
    /// The stream is live.
    pub unsafe fn stream_begin_capture(&self, stream: sys::hipStream_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipStreamBeginCapture", unsafe {
            self.lib.hipStreamBeginCapture(stream, sys::hipStreamCaptureModeThreadLocal)
        })
    }

    /// Ends the capture of a stream. Fails if a call meanwhile has spoiled the capture; the stream is usable
    /// again in any case.
    ///
    /// # Safety
    ///
    /// The stream is live, and this thread captures it.
    pub unsafe fn stream_end_capture(&self, stream: sys::hipStream_t) -> Result<sys::hipGraph_t> {
        let mut graph = null_mut();
        // SAFETY: writes one handle; the rest is guaranteed by the caller.
        self.check("hipStreamEndCapture", unsafe { self.lib.hipStreamEndCapture(stream, &mut graph) })?;
        Ok(graph)
    }

    /// Makes an executable graph from a graph.
    ///
    /// # Safety
    ///
    /// The graph is live.
    pub unsafe fn graph_instantiate(&self, graph: sys::hipGraph_t) -> Result<sys::hipGraphExec_t> {
        let mut exec = null_mut();
        // SAFETY: writes one handle, no text and no node; the rest is guaranteed by the caller.
        self.check("hipGraphInstantiate", unsafe {
            self.lib.hipGraphInstantiate(&mut exec, graph, null_mut(), null_mut(), 0)
        })?;
        Ok(exec)
    }

    /// Enqueues the work of a graph.
    ///
    /// # Safety
    ///
    /// Both are live and belong to one device; modules and memory of the graph's work stay valid until the
    /// stream has passed it; no other thread uses the graph.
    pub unsafe fn graph_launch(&self, exec: sys::hipGraphExec_t, stream: sys::hipStream_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipGraphLaunch", unsafe { self.lib.hipGraphLaunch(exec, stream) })
    }

    /// Destroys a graph. Executable graphs made from it live on.
    ///
    /// # Safety
    ///
    /// The graph is live, and not used afterwards.
    pub unsafe fn graph_destroy(&self, graph: sys::hipGraph_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipGraphDestroy", unsafe { self.lib.hipGraphDestroy(graph) })
    }

    /// Destroys an executable graph.
    ///
    /// # Safety
    ///
    /// It is live, none of its work is running, and it is not used afterwards.
    pub unsafe fn graph_exec_destroy(&self, exec: sys::hipGraphExec_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipGraphExecDestroy", unsafe { self.lib.hipGraphExecDestroy(exec) })
    }
}
