//! Memory, copies and fills.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use super::{Hip, Result, sys};

/// Memory. Device memory belongs to the calling thread's current device.
impl Hip {
    /// Allocates device memory of at least this size.
    pub fn malloc(&self, bytes: usize) -> Result<*mut c_void> {
        let mut memory = null_mut();
        // SAFETY: writes one pointer.
        self.check("hipMalloc", unsafe { self.lib.hipMalloc(&mut memory, bytes) })?;
        Ok(memory)
    }

    /// Frees device memory.
    ///
    /// # Safety
    ///
    /// The memory comes from [`malloc`](Self::malloc), was not freed before, and no later work uses it.
    pub unsafe fn free(&self, memory: *mut c_void) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipFree", unsafe { self.lib.hipFree(memory) })
    }

    /// Allocates pinned host memory.
    pub fn host_malloc(&self, bytes: usize) -> Result<*mut c_void> {
        let mut memory = null_mut();
        // SAFETY: writes one pointer.
        let status = unsafe { self.lib.hipHostMalloc(&mut memory, bytes, sys::hipHostMallocPortable) };
        self.check("hipHostMalloc", status)?;
        Ok(memory)
    }

    /// Allocates pinned host memory that the device does not cache, so that the host sees what a kernel has
    /// released.
    pub fn host_malloc_coherent(&self, bytes: usize) -> Result<*mut c_void> {
        let mut memory = null_mut();
        let flags = sys::hipHostMallocPortable | sys::hipHostMallocCoherent;
        // SAFETY: writes one pointer.
        self.check("hipHostMalloc", unsafe { self.lib.hipHostMalloc(&mut memory, bytes, flags) })?;
        Ok(memory)
    }

    /// Frees host memory of either kind.
    ///
    /// # Safety
    ///
    /// The memory comes from one of the functions of this type, was not freed before, and no later copy uses
    /// it.
    pub unsafe fn host_free(&self, memory: *mut c_void) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipHostFree", unsafe { self.lib.hipHostFree(memory) })
    }

    /// Enqueues a copy.
    ///
    /// # Safety
    ///
    /// Both addresses have this many bytes, match `kind`, and stay valid until the stream has passed the
    /// copy.
    pub unsafe fn memcpy_async(
        &self,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: sys::hipMemcpyKind,
        stream: sys::hipStream_t,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipMemcpyAsync", unsafe { self.lib.hipMemcpyAsync(to, from, bytes, kind, stream) })
    }

    /// Enqueues setting every byte to a value.
    ///
    /// # Safety
    ///
    /// The device memory has this many bytes and stays valid until the stream has passed the call.
    pub unsafe fn memset_async(
        &self,
        to: *mut c_void,
        value: u8,
        bytes: usize,
        stream: sys::hipStream_t,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipMemsetAsync", unsafe {
            self.lib.hipMemsetAsync(to, c_int::from(value), bytes, stream)
        })
    }
}
