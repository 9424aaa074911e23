//! A device in use, with everything that it owns.

mod lend;
mod marks;

use crate::sync::{Mutex, RwLock};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hip_sys::hip::hipEvent_t;

use super::allocator::{Block, Cache, Exhaustion, MemoryStats, Refusal, Source};
use super::diagnosis;
use super::error::{Error, Result};
use super::info::{self, DeviceInfo};
use super::pinned::Pool;
use super::raw::{KEPT_BYTES, KernelMemory, RECORD_BYTES, RawEvent, next_stream_id};
use super::result::{Hip, HipError};
use super::track::Track;

/// Waiting for a device takes the read lock; capturing a stream takes the write lock, because such a wait
/// would spoil the capture, whichever thread makes it. No other lock is taken while this one is held.
static CAPTURE: RwLock<()> = RwLock::new(());

/// A device in use: its cached memory, streams, events and staging memory, and the error that a `Drop` left.
/// Clones refer to the same device.
#[derive(Clone, Debug)]
pub struct Device {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    hip: Hip,
    info: DeviceInfo,
    cache: Mutex<Cache>,
    streams: Mutex<Vec<Arc<Track>>>,
    events: Mutex<Vec<RawEvent>>,
    pinned: Pool,
    kernel_memory: Mutex<KernelMemories>,
    deferred: Deferred,
}

/// The memory that kernels of all streams keep from launch to launch.
#[derive(Debug, Default)]
struct KernelMemories {
    all: Vec<KernelMemory>,
    /// Memory that no stream owns and no kernel writes.
    spare: Vec<KernelMemory>,
}

/// The error that a `Drop` left.
#[derive(Debug, Default)]
struct Deferred {
    error: Mutex<Option<Error>>,
    /// Whether there may be an error. Every call reads this, without a lock.
    any: AtomicBool,
}

impl Deferred {
    /// Keeps only the first error: later ones are its consequences.
    fn keep(&self, error: impl Into<Error>) {
        self.error.lock().get_or_insert_with(|| error.into());
        self.any.store(true, Ordering::Release);
    }
    #[inline]
    fn take(&self) -> Option<Error> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.take_locked()
    }
    #[cold]
    fn take_locked(&self) -> Option<Error> {
        let mut error = self.error.lock();
        self.any.store(false, Ordering::Release);
        error.take()
    }
}

impl Device {
    /// Opens the HIP runtime and the preferred device.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] without ROCm, [`Error::NoDevice`] without a supported device; errors from HIP.
    pub fn open_default() -> Result<Device> {
        let hip = Hip::load()?;
        let devices = DeviceInfo::all(&hip)?;
        for remark in info::remarks(&devices) {
            tracing::warn!("{remark}");
        }
        match DeviceInfo::preferred(&devices) {
            Some(info) => Ok(Device::new(&hip, info.clone())),
            None => {
                let names: Vec<_> =
                    devices.iter().map(|device| format!("{} ({})", device.name, device.gfx)).collect();
                Err(Error::NoDevice(format!("{} is not supported: gfx9 or later is", names.join(", "))))
            }
        }
    }

    /// Opens the HIP runtime and the device with this number.
    ///
    /// # Errors
    ///
    /// As [`open_default`](Self::open_default); [`Error::NoSuchDevice`].
    pub fn open(ordinal: u32) -> Result<Device> {
        let hip = Hip::load()?;
        let devices = DeviceInfo::all(&hip)?;
        match devices.get(ordinal as usize) {
            Some(info) => Ok(Device::new(&hip, info.clone())),
            None => Err(Error::NoSuchDevice { ordinal, count: devices.len() as u32 }),
        }
    }

    /// The device that an entry of [`DeviceInfo::all`] describes. Each call makes one with its own cache.
    pub fn new(hip: &Hip, info: DeviceInfo) -> Device {
        let inner = Inner {
            hip: hip.clone(),
            info,
            cache: Mutex::default(),
            streams: Mutex::default(),
            events: Mutex::default(),
            pinned: Pool::default(),
            kernel_memory: Mutex::default(),
            deferred: Deferred::default(),
        };
        Device { inner: Arc::new(inner) }
    }

    /// The device's properties.
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// The HIP runtime through which it is used.
    pub fn hip(&self) -> &Hip {
        &self.inner.hip
    }

    /// Waits for all work on the device, including streams of other code in this process.
    ///
    /// # Errors
    ///
    /// An error left by an earlier `Drop`, or one from HIP, including those of the work itself.
    pub fn synchronize(&self) -> Result<()> {
        self.check()?;
        Ok(self.inner.synchronize()?)
    }

    /// Free and total bytes. The free ones are the smaller of two values: HIP's, which does not count other
    /// programs' graphics, and the kernel driver's.
    ///
    /// # Errors
    ///
    /// Errors from HIP.
    pub fn memory_info(&self) -> Result<(usize, usize)> {
        let (free, total) = self.inner.enter(|hip| hip.mem_info())?;
        let info = self.info();
        let driver = match info.integrated || info.pci_bus_id.is_empty() {
            true => None,
            false => diagnosis::unused_video_memory(Path::new("/sys"), &info.pci_bus_id),
        };
        Ok((driver.map_or(free, |driver| free.min(driver)), total))
    }

    /// Bytes that buffers can still take: those that HIP has and those that are cached, within the cap. `None` if HIP cannot say,
    /// and for a device that shares the host's memory, of which HIP counts only a part.
    pub(crate) fn free_memory(&self) -> Option<u64> {
        if self.info().integrated {
            return None;
        }
        let (free, _) = self.memory_info().ok()?;
        let cache = self.inner.cache.lock();
        let MemoryStats { in_use, cached, .. } = cache.stats();
        let left = cache.cap().map_or(usize::MAX, |cap| cap.saturating_sub(in_use));
        u64::try_from(free.saturating_add(cached).min(left)).ok()
    }

    /// Statistics of the device's memory.
    pub fn memory_stats(&self) -> MemoryStats {
        self.inner.cache.lock().stats()
    }

    /// Limits the memory taken from HIP, in use and cached; `None` removes the limit.
    pub fn set_memory_cap(&self, cap: Option<usize>) {
        self.inner.cache.lock().set_cap(cap);
    }

    /// Waits for all work and returns cached memory to HIP.
    ///
    /// # Errors
    ///
    /// An error left by an earlier `Drop`, or one from HIP. Memory that could not be freed stays cached.
    pub fn trim(&self) -> Result<()> {
        self.check()?;
        self.inner.synchronize()?;
        self.inner.cache.lock().trim(&*self.inner)?;
        Ok(self.inner.pinned.trim(&self.inner.hip)?)
    }
}

/// Functions for the types that use a device's resources.
impl Device {
    /// Returns the error that a `Drop` left, once.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        self.inner.deferred.take().map_or(Ok(()), Err)
    }

    /// Keeps the error of a `Drop` for the next call.
    pub(super) fn defer(&self, error: impl Into<Error>) {
        self.inner.deferred.keep(error);
    }

    /// Calls HIP with this device as the thread's current one.
    pub(super) fn enter<R>(&self, call: impl FnOnce(&Hip) -> std::result::Result<R, HipError>) -> Result<R> {
        Ok(self.inner.enter(call)?)
    }

    /// Makes a call to HIP or a library that may allocate device memory, with this device as the thread's
    /// current one. If memory is exhausted, frees the cache and calls again.
    #[inline]
    pub(crate) fn with_room<R, E: Exhaustion>(
        &self,
        call: impl FnMut(&Hip) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        self.inner.with_room(call)
    }

    /// Calls a library that works on the thread's current device, after making this device current.
    pub(crate) fn as_current<R>(&self, call: impl FnOnce() -> R) -> Result<R> {
        self.enter(|_| Ok(call()))
    }

    /// The most memory that may be taken from HIP: the cap, or the device's memory.
    pub(crate) fn memory_limit(&self) -> usize {
        self.inner.cache.lock().cap().unwrap_or(self.info().memory)
    }

    /// Keeps the error of a library in a `Drop` for the next call.
    pub(crate) fn defer_library(&self, error: Error) {
        self.defer(error);
    }

    /// Calls HIP to capture a stream. `call` is repeated if other code in the process has spoiled the
    /// capture; it must not call anything else in this crate.
    pub(super) fn capture<R>(&self, call: impl Fn(&Hip) -> std::result::Result<R, HipError>) -> Result<R> {
        const TRIES: usize = 3;
        let spoiled = |error: &HipError| error.code() == Some(hip_sys::hip::hipErrorStreamCaptureInvalidated);
        let _alone = CAPTURE.write();
        let mut tries = 1;
        loop {
            match self.inner.enter(&call) {
                Err(error) if spoiled(&error) && tries < TRIES => tries += 1,
                done => return Ok(done?),
            }
        }
    }

    /// Waits for all work, without returning the error that a `Drop` left.
    pub(super) fn wait_all(&self) -> Result<()> {
        Ok(self.inner.synchronize()?)
    }

    /// Memory for work on the stream with this number.
    pub(super) fn allocate(&self, stream: u64, bytes: usize) -> Result<Block> {
        // Releases the lock before asking HIP for the free memory.
        let refused = match self.inner.cache.lock().allocate(&*self.inner, stream, bytes) {
            Ok(block) => return Ok(block),
            Err(refused) => refused,
        };
        match refused {
            Refusal::Hip(error) => Err(error.into()),
            Refusal::Exhausted => {
                let (free, total) = self.memory_info().unwrap_or((0, self.info().memory));
                let cache = self.inner.cache.lock();
                Err(Error::OutOfMemory {
                    wanted: bytes,
                    free,
                    total,
                    in_use: cache.stats().in_use,
                    cap: cache.cap(),
                })
            }
        }
    }

    /// Takes back a block whose uses all come before later work on the stream.
    pub(super) fn release(&self, stream: u64, block: Block) {
        self.inner.cache.lock().release(stream, block);
    }

    /// Takes back a block on which work may still be running. It is not reused before the next trim, which
    /// waits for the device.
    pub(super) fn quarantine(&self, block: Block) {
        self.inner.cache.lock().release(next_stream_id(), block);
    }

    /// Waits for a stream that other code owns, and frees the blocks kept for it. Called as its loan ends.
    pub(super) fn forget_stream(&self, track: &Track) -> std::result::Result<(), HipError> {
        // SAFETY: the lender keeps the stream alive until the loan has ended.
        let waited = unsafe { self.hip().stream_synchronize(track.raw.handle) };
        self.give_back(track.close());
        waited.and(self.inner.cache.lock().trim(&*self.inner))
    }
}

fn destroy_event(hip: &Hip, event: hipEvent_t) -> std::result::Result<(), HipError> {
    // SAFETY: called by the event's owner, which does not use it again.
    unsafe { hip.event_destroy(event) }
}

impl Inner {
    /// Calls HIP with this device as the thread's current one, and then restores the previous one.
    fn enter<R, E: From<HipError>>(
        &self,
        call: impl FnOnce(&Hip) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let (former, device) = (self.hip.current_device()?, self.info.ordinal as c_int);
        if former == device {
            return call(&self.hip);
        }
        self.hip.set_device(device)?;
        let result = call(&self.hip);
        if let Err(error) = self.hip.set_device(former) {
            self.deferred.keep(error);
        }
        result
    }

    /// As [`Device::with_room`].
    #[inline]
    fn with_room<R, E: Exhaustion>(
        &self,
        mut call: impl FnMut(&Hip) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        self.enter(&mut call).or_else(|error| self.make_room(error, call))
    }

    #[cold]
    fn make_room<R, E: Exhaustion>(
        &self,
        error: E,
        call: impl FnMut(&Hip) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        self.cache.lock().retry(self, error, |_| self.enter(call))
    }

    fn new_kernel_memory(&self) -> std::result::Result<KernelMemory, HipError> {
        let record = self.with_room(|hip| hip.host_malloc_coherent(RECORD_BYTES))?;
        // SAFETY: the memory has this size, and no other code knows of it.
        unsafe { record.cast::<u8>().write_bytes(0, RECORD_BYTES) };
        match self.with_room(|hip| hip.malloc(KEPT_BYTES)) {
            Ok(slot) => Ok(KernelMemory { record: record as usize, slot: slot as usize }),
            Err(error) => {
                // SAFETY: allocated above and not used by anyone.
                if let Err(error) = unsafe { self.hip.host_free(record) } {
                    self.deferred.keep(error);
                }
                Err(error)
            }
        }
    }

    fn free_kernel_memory(&self, memory: KernelMemory) -> std::result::Result<(), HipError> {
        let slot = Source::free(self, &Block { address: memory.slot, bytes: KEPT_BYTES, after: 0 });
        // SAFETY: the record comes from `host_malloc_coherent`, and the device is idle and being closed.
        slot.and(unsafe { self.hip.host_free(memory.record as *mut c_void) })
    }
}

impl Source for Inner {
    fn malloc(&self, bytes: usize) -> std::result::Result<Block, HipError> {
        self.enter(|hip| hip.malloc(bytes)).map(|address| Block {
            address: address as usize,
            bytes,
            after: 0,
        })
    }

    fn free(&self, block: &Block) -> std::result::Result<(), HipError> {
        // SAFETY: the block comes from `malloc`, and the cache, its owner, forgets it once this has
        // succeeded.
        self.enter(|hip| unsafe { hip.free(block.address as *mut c_void) })
    }

    fn synchronize(&self) -> std::result::Result<(), HipError> {
        let _no_capture = CAPTURE.read();
        self.enter(|hip| hip.device_synchronize())
    }
}

impl Drop for Inner {
    /// Frees everything. Errors are logged, since there is no caller to return them to.
    fn drop(&mut self) {
        let mut cache = std::mem::take(self.cache.get_mut());
        let mut results = vec![Source::synchronize(self)];
        let records = std::mem::take(&mut self.kernel_memory.get_mut().all);
        results.extend(records.into_iter().map(|memory| self.free_kernel_memory(memory)));
        results.push(cache.trim(self));
        results.push(self.pinned.trim(&self.hip));
        let mut events = std::mem::take(self.events.get_mut());
        for track in self.streams.get_mut().drain(..) {
            events.extend(track.close().into_iter().filter_map(|mark| Arc::into_inner(mark.event)));
            // SAFETY: the stream was made by this device and has no owner left.
            results.push(unsafe { self.hip.stream_destroy(track.raw.handle) });
        }
        results.extend(events.into_iter().map(|event| destroy_event(&self.hip, event.0)));
        for error in results.into_iter().filter_map(std::result::Result::err) {
            tracing::warn!(device = self.info.ordinal, "while closing the device: {error}");
        }
    }
}
