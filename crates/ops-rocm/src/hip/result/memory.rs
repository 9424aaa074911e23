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

    /// Allocates device memory that no cache holds, so that other devices and the host may use it while kernels run.
    pub fn malloc_uncached(&self, bytes: usize) -> Result<*mut c_void> {
        let mut memory = null_mut();
        // SAFETY: writes one pointer.
        let status =
            unsafe { self.lib.hipExtMallocWithFlags(&mut memory, bytes, sys::hipDeviceMallocUncached) };
        self.check("hipExtMallocWithFlags", status)?;
        Ok(memory)
    }

    /// Whether the driver says that kernels of a device can use memory of another.
    pub fn can_access_peer(&self, device: c_int, peer: c_int) -> Result<bool> {
        let mut can = 0;
        // SAFETY: writes one int.
        let status = unsafe { self.lib.hipDeviceCanAccessPeer(&mut can, device, peer) };
        self.check("hipDeviceCanAccessPeer", status)?;
        Ok(can != 0)
    }

    /// Lets kernels of the current device use memory of another. Does nothing if they may already.
    pub fn enable_peer(&self, peer: c_int) -> Result<()> {
        // SAFETY: takes numbers.
        let status = unsafe { self.lib.hipDeviceEnablePeerAccess(peer, 0) };
        match self.check("hipDeviceEnablePeerAccess", status) {
            Err(error) if error.code() == Some(sys::hipErrorPeerAccessAlreadyEnabled) => Ok(()),
            done => done,
        }
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
