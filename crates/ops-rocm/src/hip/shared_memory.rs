//! Memory that kernels on several devices, and the host, use while kernels run.
use std::ffi::{c_int, c_void};

use super::device::Device;
use super::error::Result;
use super::staging::fill;

/// Memory of one owner at one address, of any use. It starts as zeros.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    device: Device,
    address: usize,
    is_host: bool,
}

impl SharedMemory {
    /// Device memory that no cache holds.
    pub(crate) fn uncached(device: &Device, bytes: usize) -> Result<Self> {
        let address = device.with_room(|hip| hip.malloc_uncached(bytes))? as usize;
        Self::zeroed(device, address, bytes)
    }

    /// Device memory that only kernels of this device use.
    pub(crate) fn plain(device: &Device, bytes: usize) -> Result<Self> {
        let address = device.with_room(|hip| hip.malloc(bytes))? as usize;
        Self::zeroed(device, address, bytes)
    }

    fn zeroed(device: &Device, address: usize, bytes: usize) -> Result<Self> {
        let memory = SharedMemory { device: device.clone(), address, is_host: false };
        let stream = device.stream()?;
        // SAFETY: the memory has this size, and is freed after the wait.
        unsafe { fill(&stream, address, 0, bytes) }?;
        stream.synchronize()?;
        Ok(memory)
    }

    /// Coherent pinned memory of the host.
    pub(crate) fn host(device: &Device, bytes: usize) -> Result<Self> {
        let memory = device.enter(|hip| hip.host_malloc_coherent(bytes))?;
        // SAFETY: the memory has this size, and no other code knows of it.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        Ok(SharedMemory { device: device.clone(), address: memory as usize, is_host: true })
    }

    /// The address, on every device that may use the memory; for [`host`](Self::host) also in this process.
    pub(crate) fn address(&self) -> usize {
        self.address
    }
}

impl Drop for SharedMemory {
    /// The owner has waited for the work of other devices; HIP waits for that of this one.
    fn drop(&mut self) {
        let memory = self.address as *mut c_void;
        // SAFETY: the memory was allocated by the matching function, and no work uses it.
        let freed = self
            .device
            .enter(|hip| unsafe { if self.is_host { hip.host_free(memory) } else { hip.free(memory) } });
        if let Err(error) = freed {
            self.device.defer(error);
        }
    }
}

impl Device {
    /// Whether the driver says that kernels of this device can use another's memory.
    pub(crate) fn can_access(&self, peer: &Device) -> Result<bool> {
        let [device, peer] = [self, peer].map(|device| device.info().ordinal as c_int);
        self.enter(|hip| hip.can_access_peer(device, peer))
    }

    /// Lets kernels of this device use another's memory.
    pub(crate) fn enable_peer(&self, peer: &Device) -> Result<()> {
        let peer = peer.info().ordinal as c_int;
        self.enter(|hip| hip.enable_peer(peer))
    }

    /// Ticks of the clock that kernels read, in a millisecond.
    pub(crate) fn clock_rate(&self) -> Result<u64> {
        let device = self.info().ordinal as c_int;
        let rate = self.enter(|hip| hip.attribute(hip_sys::hip::hipDeviceAttributeWallClockRate, device))?;
        Ok(u64::try_from(rate).unwrap_or(0).max(1))
    }

    /// Waits for all work on the device, as the owner of [`SharedMemory`] must before it drops it.
    pub(crate) fn finish(&self) -> Result<()> {
        self.wait_all()
    }
}
