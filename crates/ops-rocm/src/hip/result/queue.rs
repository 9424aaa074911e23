//! Streams and events.

use std::ffi::c_uint;
use std::ptr::null_mut;

use super::{Hip, MissingSymbol, Result, sys};

/// Streams and events. They belong to the calling thread's current device.
impl Hip {
    /// Makes a stream that does not wait for the null stream.
    pub fn stream_create(&self) -> Result<sys::hipStream_t> {
        let mut stream = null_mut();
        // SAFETY: writes one handle.
        let status = unsafe { self.lib.hipStreamCreateWithFlags(&mut stream, sys::hipStreamNonBlocking) };
        self.check("hipStreamCreateWithFlags", status)?;
        Ok(stream)
    }

    /// Destroys a stream when its work is done.
    ///
    /// # Safety
    ///
    /// The stream is live, and not used afterwards.
    pub unsafe fn stream_destroy(&self, stream: sys::hipStream_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipStreamDestroy", unsafe { self.lib.hipStreamDestroy(stream) })
    }

    /// Waits for all work of a stream.
    ///
    /// # Safety
    ///
    /// The stream is live.
    pub unsafe fn stream_synchronize(&self, stream: sys::hipStream_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipStreamSynchronize", unsafe { self.lib.hipStreamSynchronize(stream) })
    }

    /// Whether all work of a stream is done.
    ///
    /// # Safety
    ///
    /// The stream is live.
    pub unsafe fn stream_query(&self, stream: sys::hipStream_t) -> Result<bool> {
        // SAFETY: guaranteed by the caller.
        self.ready("hipStreamQuery", unsafe { self.lib.hipStreamQuery(stream) })
    }

    /// Makes later work of a stream wait for an event.
    ///
    /// # Safety
    ///
    /// Both are live.
    pub unsafe fn stream_wait_event(&self, stream: sys::hipStream_t, event: sys::hipEvent_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipStreamWaitEvent", unsafe { self.lib.hipStreamWaitEvent(stream, event, 0) })
    }

    /// Makes an event, with or without a time stamp.
    pub fn event_create(&self, timed: bool) -> Result<sys::hipEvent_t> {
        let mut event = null_mut();
        let flags: c_uint = if timed { sys::hipEventDefault } else { sys::hipEventDisableTiming };
        // SAFETY: writes one handle.
        self.check("hipEventCreateWithFlags", unsafe {
            self.lib.hipEventCreateWithFlags(&mut event, flags)
        })?;
        Ok(event)
    }

    /// Destroys an event.
    ///
    /// # Safety
    ///
    /// The event is live, and not used afterwards.
    pub unsafe fn event_destroy(&self, event: sys::hipEvent_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipEventDestroy", unsafe { self.lib.hipEventDestroy(event) })
    }

    /// Records an event after a stream's work so far.
    ///
    /// # Safety
    ///
    /// Both are live and belong to one device.
    pub unsafe fn event_record(&self, event: sys::hipEvent_t, stream: sys::hipStream_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipEventRecord", unsafe { self.lib.hipEventRecord(event, stream) })
    }

    /// Waits for an event.
    ///
    /// # Safety
    ///
    /// The event is live.
    pub unsafe fn event_synchronize(&self, event: sys::hipEvent_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipEventSynchronize", unsafe { self.lib.hipEventSynchronize(event) })
    }

    /// Whether an event has been reached.
    ///
    /// # Safety
    ///
    /// The event is live.
    pub unsafe fn event_query(&self, event: sys::hipEvent_t) -> Result<bool> {
        // SAFETY: guaranteed by the caller.
        self.ready("hipEventQuery", unsafe { self.lib.hipEventQuery(event) })
    }

    /// Milliseconds between two events.
    ///
    /// # Safety
    ///
    /// Both are live, were made with a time stamp, and have been recorded.
    pub unsafe fn event_elapsed_time(&self, start: sys::hipEvent_t, stop: sys::hipEvent_t) -> Result<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: writes one float; the rest is guaranteed by the caller.
        let status = unsafe { self.lib.hipEventElapsedTime(&mut milliseconds, start, stop) };
        self.check("hipEventElapsedTime", status)?;
        Ok(milliseconds)
    }

    /// A status that may also mean "not yet".
    fn ready(
        &self,
        call: &'static str,
        status: std::result::Result<sys::hipError_t, MissingSymbol>,
    ) -> Result<bool> {
        match self.check(call, status) {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(sys::hipErrorNotReady) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
