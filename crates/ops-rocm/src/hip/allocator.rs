//! The cache of device memory: freed blocks are kept by size and stream, and reused without calling HIP.
//!
//! A block that is freed on a stream is reused on that stream only. The new owner's work is enqueued after
//! the former owner's, so nothing has to wait. HIP's own pools and virtual memory are not used: users report
//! these parts of ROCm as broken more often than any other.

use std::collections::{BTreeMap, HashMap};

use super::result::HipError;

/// Where the cache gets its memory.
pub(super) trait Source {
    /// New memory of at least this size.
    fn malloc(&self, bytes: usize) -> Result<Block, HipError>;
    /// Frees memory that no later work uses.
    fn free(&self, block: &Block) -> Result<(), HipError>;
    /// Waits until no work is running.
    fn synchronize(&self) -> Result<(), HipError>;
}

/// A block of device memory. The owner of the value owns the memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The address on the device.
    pub(super) address: usize,
    /// The size, rounded up to its size class.
    pub(super) bytes: usize,
    /// The number of a mark of its stream after the last work on it.
    pub(super) after: u64,
}

/// An error that may mean that device memory is exhausted.
pub(crate) trait Exhaustion: From<HipError> {
    /// Whether it means that.
    fn is_exhaustion(&self) -> bool;
}

impl Exhaustion for HipError {
    fn is_exhaustion(&self) -> bool {
        self.code() == Some(hip_sys::hip::hipErrorOutOfMemory)
    }
}

/// Why there is no block.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The device is full, or the cap is reached, even after the cache was freed.
    Exhausted,
    /// HIP failed in another way.
    Hip(HipError),
}

impl From<HipError> for Refusal {
    fn from(error: HipError) -> Refusal {
        if error.is_exhaustion() { Refusal::Exhausted } else { Refusal::Hip(error) }
    }
}

impl Exhaustion for Refusal {
    fn is_exhaustion(&self) -> bool {
        matches!(self, Refusal::Exhausted)
    }
}

/// Statistics of a device's memory. Sizes are in bytes, rounded up to the cache's size classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Held by live buffers.
    pub in_use: usize,
    /// The maximum held by live buffers at one time.
    pub peak_in_use: usize,
    /// Freed by buffers and kept for reuse.
    pub cached: usize,
    /// Buffers made so far.
    pub allocations: u64,
    /// How many of these were served from the cache.
    pub reused: u64,
    /// How often the cache was freed.
    pub trims: u64,
    /// How often an allocation, or another call that needs device memory, succeeded only after that.
    pub retries: u64,
}

impl MemoryStats {
    /// Bytes taken from HIP: in use or cached.
    pub fn reserved(&self) -> usize {
        self.in_use + self.cached
    }
}

/// The cache of one device.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Free blocks by stream, then by size.
    idle: HashMap<u64, BTreeMap<usize, Vec<Block>>>,
    stats: MemoryStats,
    cap: Option<usize>,
}

/// The size that is allocated for a request: at most an eighth more, in steps that make freed blocks
/// reusable. `None` if there is no such size.
fn size_class(bytes: usize) -> Option<usize> {
    const SMALLEST: usize = 512;
    let step = (bytes.checked_next_power_of_two()? / 16).max(SMALLEST);
    bytes.max(1).checked_next_multiple_of(step)
}

impl Cache {
    pub(super) fn stats(&self) -> MemoryStats {
        self.stats
    }

    pub(super) fn cap(&self) -> Option<usize> {
        self.cap
    }

    /// Limits the memory taken from HIP. Memory above the limit that is already in use stays with its owners.
    pub(super) fn set_cap(&mut self, cap: Option<usize>) {
        self.cap = cap;
    }

    /// A block of at least this size for work on a stream.
    pub(super) fn allocate(
        &mut self,
        source: &impl Source,
        stream: u64,
        bytes: usize,
    ) -> Result<Block, Refusal> {
        let class = size_class(bytes).ok_or(Refusal::Exhausted)?;
        let block = match self.take_idle(stream, class) {
            Some(block) => {
                self.stats.reused += 1;
                block
            }
            None => self
                .reserve(source, class)
                .or_else(|refusal| self.retry(source, refusal, |cache| cache.reserve(source, class)))?,
        };
        self.stats.allocations += 1;
        self.stats.in_use += block.bytes;
        self.stats.peak_in_use = self.stats.peak_in_use.max(self.stats.in_use);
        Ok(block)
    }

    /// The smallest free block that is large enough, unless it would waste more than a quarter.
    fn take_idle(&mut self, stream: u64, class: usize) -> Option<Block> {
        let sizes = self.idle.get_mut(&stream)?;
        let (&size, blocks) = sizes.range_mut(class..=class.saturating_add(class / 4)).next()?;
        let block = blocks.pop()?;
        if blocks.is_empty() {
            sizes.remove(&size);
        }
        self.stats.cached -= block.bytes;
        Some(block)
    }

    /// New memory from HIP.
    fn reserve(&mut self, source: &impl Source, class: usize) -> Result<Block, Refusal> {
        if self.fits(class) { Ok(source.malloc(class)?) } else { Err(Refusal::Exhausted) }
    }

    /// Makes a call. If it finds device memory exhausted, frees the cache and makes the call again. Every
    /// call that may allocate device memory is retried here.
    ///
    /// # Errors
    ///
    /// `error`, if it means something else; a HIP error while the cache is freed; errors of the second call.
    pub(super) fn retry<R, E: Exhaustion>(
        &mut self,
        source: &impl Source,
        error: E,
        call: impl FnOnce(&mut Cache) -> Result<R, E>,
    ) -> Result<R, E> {
        if !error.is_exhaustion() {
            return Err(error);
        }
        self.trim(source)?;
        let result = call(self)?;
        self.stats.retries += 1;
        Ok(result)
    }

    fn fits(&self, class: usize) -> bool {
        self.cap.is_none_or(|cap| self.stats.reserved().checked_add(class).is_some_and(|sum| sum <= cap))
    }

    /// Takes back a block, after all work on it has been ordered before later work on the stream.
    pub(super) fn release(&mut self, stream: u64, block: Block) {
        self.stats.in_use -= block.bytes;
        self.keep(stream, block);
    }

    fn keep(&mut self, stream: u64, block: Block) {
        self.stats.cached += block.bytes;
        self.idle.entry(stream).or_default().entry(block.bytes).or_default().push(block);
    }

    /// Frees every cached block. No work may be running. A block that HIP fails to free is kept, and the
    /// first such error is returned.
    pub(super) fn trim(&mut self, source: &impl Source) -> Result<(), HipError> {
        if self.stats.cached == 0 {
            return Ok(());
        }
        source.synchronize()?;
        self.stats.trims += 1;
        let mut first_error = Ok(());
        for (stream, sizes) in std::mem::take(&mut self.idle) {
            for block in sizes.into_values().flatten() {
                self.stats.cached -= block.bytes;
                if let Err(error) = source.free(&block) {
                    self.keep(stream, block);
                    first_error = first_error.and(Err(error));
                }
            }
        }
        first_error
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use hip_sys::hip::{hipErrorInvalidValue, hipErrorOutOfMemory};

    use super::*;

    /// A device of limited memory that records the calls made to it.
    struct Device {
        total: usize,
        used: Cell<usize>,
        calls: RefCell<Vec<&'static str>>,
        next: Cell<usize>,
        broken: Cell<bool>,
    }

    impl Device {
        fn new(total: usize) -> Device {
            let calls = RefCell::default();
            Device { total, used: Cell::new(0), calls, next: Cell::new(4096), broken: Cell::new(false) }
        }

        fn calls(&self) -> Vec<&'static str> {
            self.calls.take()
        }

        fn fail(call: &'static str, code: u32) -> HipError {
            HipError::Status { call, code, name: "injected" }
        }
    }

    impl Source for Device {
        fn malloc(&self, bytes: usize) -> Result<Block, HipError> {
            self.calls.borrow_mut().push("malloc");
            if self.broken.get() {
                return Err(Device::fail("hipMalloc", hipErrorInvalidValue));
            }
            if self.used.get() + bytes > self.total {
                return Err(Device::fail("hipMalloc", hipErrorOutOfMemory));
            }
            self.used.set(self.used.get() + bytes);
            self.next.set(self.next.get() + bytes);
            Ok(Block { address: self.next.get(), bytes, after: 0 })
        }

        fn free(&self, block: &Block) -> Result<(), HipError> {
            self.calls.borrow_mut().push("free");
            if self.broken.get() {
                return Err(Device::fail("hipFree", hipErrorInvalidValue));
            }
            self.used.set(self.used.get() - block.bytes);
            Ok(())
        }

        fn synchronize(&self) -> Result<(), HipError> {
            self.calls.borrow_mut().push("synchronize");
            Ok(())
        }
    }

    #[test]
    fn size_classes_waste_at_most_an_eighth_and_are_few() {
        assert_eq!(size_class(0), Some(512));
        assert_eq!(size_class(513), Some(1024));
        assert_eq!(size_class(usize::MAX), None);
        let mut classes = Vec::new();
        for bytes in (4096..1 << 20).step_by(97) {
            let class = size_class(bytes).unwrap();
            assert!(class >= bytes && class - bytes <= bytes / 8 + 1, "{bytes} in {class}");
            assert_eq!(size_class(class), Some(class));
            classes.push(class);
        }
        classes.dedup();
        assert!(classes.len() <= 65, "{}", classes.len());
    }

    #[test]
    fn a_freed_block_serves_the_same_stream_only() {
        let (device, mut cache) = (Device::new(1 << 20), Cache::default());
        let first = cache.allocate(&device, 1, 5000).unwrap();
        let address = first.address;
        cache.release(1, first);
        let other = cache.allocate(&device, 2, 5000).unwrap();
        assert_ne!(other.address, address);
        let again = cache.allocate(&device, 1, 4900).unwrap();
        assert_eq!(again.address, address);
        assert_eq!(device.calls(), ["malloc", "malloc"]);
        let stats = cache.stats();
        assert_eq!((stats.allocations, stats.reused, stats.cached), (3, 1, 0));
        assert_eq!((stats.in_use, stats.peak_in_use), (again.bytes + other.bytes, again.bytes + other.bytes));
    }

    #[test]
    fn a_block_that_is_much_too_large_is_left_for_others() {
        let (device, mut cache) = (Device::new(1 << 20), Cache::default());
        let large = cache.allocate(&device, 1, 65536).unwrap();
        cache.release(1, large);
        assert_eq!(cache.allocate(&device, 1, 30000).unwrap().bytes, size_class(30000).unwrap());
        assert_eq!(cache.allocate(&device, 1, 60000).unwrap().bytes, 65536);
    }

    #[test]
    fn a_full_device_gets_the_cache_back_and_is_asked_once_more() {
        let (device, mut cache) = (Device::new(100 << 10), Cache::default());
        let block = cache.allocate(&device, 1, 64 << 10).unwrap();
        cache.release(1, block);
        device.calls();
        let block = cache.allocate(&device, 2, 96 << 10).unwrap();
        assert_eq!(device.calls(), ["malloc", "synchronize", "free", "malloc"]);
        let stats = cache.stats();
        assert_eq!((stats.trims, stats.retries, stats.cached, stats.in_use), (1, 1, 0, block.bytes));
        assert!(matches!(cache.allocate(&device, 2, 96 << 10), Err(Refusal::Exhausted)));
        assert_eq!(device.calls(), ["malloc", "malloc"]);
        assert_eq!(cache.stats().retries, 1);
    }

    #[test]
    fn the_cap_holds_and_counts_what_is_cached() {
        let (device, mut cache) = (Device::new(1 << 20), Cache::default());
        cache.set_cap(Some(10 << 10));
        let block = cache.allocate(&device, 1, 8 << 10).unwrap();
        assert!(matches!(cache.allocate(&device, 1, 4 << 10), Err(Refusal::Exhausted)));
        cache.release(1, block);
        assert_eq!(cache.allocate(&device, 1, 4 << 10).unwrap().bytes, 4 << 10);
        assert_eq!(cache.stats().reserved(), 4 << 10);
    }

    #[test]
    fn other_failures_are_not_taken_for_exhaustion() {
        let (device, mut cache) = (Device::new(1 << 20), Cache::default());
        device.broken.set(true);
        assert!(matches!(cache.allocate(&device, 1, 4096), Err(Refusal::Hip(_))));
        assert_eq!(device.calls(), ["malloc"]);
        assert_eq!(cache.stats(), MemoryStats::default());
    }

    #[test]
    fn a_block_that_cannot_be_freed_is_kept_and_freed_later() {
        let (device, mut cache) = (Device::new(1 << 20), Cache::default());
        for _ in 0..2 {
            let block = cache.allocate(&device, 1, 4096).unwrap();
            cache.release(1, block);
        }
        device.broken.set(true);
        assert_eq!(cache.trim(&device).unwrap_err().call(), "hipFree");
        assert_eq!(cache.stats().cached, 4096);
        device.broken.set(false);
        cache.trim(&device).unwrap();
        assert_eq!((cache.stats().cached, device.used.get()), (0, 0));
    }
}
