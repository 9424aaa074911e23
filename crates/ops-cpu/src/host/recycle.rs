//! Reuses the memory of dropped buffers.
//!
//! The first touch of a fresh page costs more than most operations on it. So the memory of a dropped buffer
//! is kept, by size class, for the next buffer of about its size. Large allocations request huge pages.
use bytemuck::{Pod, Zeroable};
use memmap2::MmapMut;
use ops_core::Element;
use std::any::Any;
use std::sync::Mutex;

/// A cache line: the unit and alignment of owned memory.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

/// Allocations of at least this many bytes get their own mapping, with huge pages where available.
const MIN_MAPPED_BYTES: usize = 4 << 20;
/// Maximum bytes kept, over all size classes.
const MAX_KEPT_BYTES: usize = 1 << 30;
/// Number of size classes: four per power of two.
const CLASSES: usize = 4 * usize::BITS as usize;

/// Owned memory. What this module allocates is aligned to a cache line and has unspecified contents.
pub(super) enum Chunk {
    Lines(Vec<Line>),
    Mapped(MmapMut),
    /// A vector of a user, aligned for its elements only.
    Adopted(Box<dyn Adopted>),
}

/// A `Vec` of any elements.
pub(super) trait Adopted: Send + Sync {
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
    /// The vector, for a caller who knows the type of its elements.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}
impl<T: Element> Adopted for Vec<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self)
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Chunk {
    /// At least `bytes` bytes, or `None` if memory is exhausted.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        let class = class(bytes)?;
        if class.bytes == 0 {
            return Some(Chunk::Lines(Vec::new()));
        }
        let reused = FREE.lock().unwrap_or_else(|e| e.into_inner()).take(class);
        reused.or_else(|| Self::allocate(class.bytes))
    }

    fn allocate(bytes: usize) -> Option<Self> {
        if bytes < MIN_MAPPED_BYTES {
            return bytemuck::try_zeroed_vec(bytes / size_of::<Line>()).ok().map(Chunk::Lines);
        }
        let map = MmapMut::map_anon(bytes).ok()?;
        // Huge pages are optional; without them it is only slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Some(Chunk::Mapped(map))
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Lines(lines) => bytemuck::cast_slice(lines),
            Chunk::Mapped(map) => map,
            Chunk::Adopted(vec) => vec.bytes(),
        }
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Chunk::Lines(lines) => bytemuck::cast_slice_mut(lines),
            Chunk::Mapped(map) => map,
            Chunk::Adopted(vec) => vec.bytes_mut(),
        }
    }

    /// Keeps the memory for later, or returns it to the system.
    pub(super) fn recycle(self) {
        // Buffers are promised the alignment of a cache line.
        if matches!(self, Chunk::Adopted(_)) {
            return;
        }
        let Some(class) = class(self.bytes().len()).filter(|class| class.bytes > 0) else { return };
        // Evicted memory is dropped after the lock is released.
        let _evicted = FREE.lock().unwrap_or_else(|e| e.into_inner()).put(class, self);
    }
}

/// A size class.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Class {
    index: usize,
    bytes: usize,
}

/// The class for `bytes`; `None` if no allocation can be that large.
fn class(bytes: usize) -> Option<Class> {
    if bytes == 0 || isize::try_from(bytes).is_err() {
        return (bytes == 0).then_some(Class { index: 0, bytes: 0 });
    }
    // Steps of a quarter of the power of two below, at least one line.
    let step = (bytes.next_power_of_two() / 8).max(size_of::<Line>());
    let bytes = bytes.checked_next_multiple_of(step).filter(|b| isize::try_from(*b).is_ok())?;
    let power = bytes.ilog2();
    let quarter = (bytes - (1 << power)) >> (power - 2);
    Some(Class { index: 4 * power as usize + quarter, bytes })
}

/// Returns all kept memory to the system, and its size in bytes.
pub(crate) fn trim() -> usize {
    // The memory is dropped after the lock is released.
    let (_given_back, bytes) = FREE.lock().unwrap_or_else(|e| e.into_inner()).take_all();
    bytes
}

static FREE: Mutex<FreeList> = Mutex::new(FreeList::new());

/// Free memory by size class.
struct FreeList {
    free: [Vec<Chunk>; CLASSES],
    bytes: usize,
}

impl FreeList {
    const fn new() -> Self {
        FreeList { free: [const { Vec::new() }; CLASSES], bytes: 0 }
    }

    fn take(&mut self, class: Class) -> Option<Chunk> {
        let chunk = self.free[class.index].pop()?;
        self.bytes -= class.bytes;
        Some(chunk)
    }

    /// Takes all chunks, with their total size in bytes.
    fn take_all(&mut self) -> (Vec<Chunk>, usize) {
        let mut all = Vec::new();
        self.free.iter_mut().for_each(|free| all.append(free));
        (all, core::mem::take(&mut self.bytes))
    }

    /// Keeps `chunk` and returns the chunks that were evicted. If the limit would be exceeded, everything kept so far is
    /// evicted, so that sizes no longer in use make room.
    fn put(&mut self, class: Class, chunk: Chunk) -> Vec<Chunk> {
        let mut evicted = Vec::new();
        if class.bytes > MAX_KEPT_BYTES {
            return vec![chunk];
        }
        if self.bytes + class.bytes > MAX_KEPT_BYTES {
            evicted = self.take_all().0;
        }
        self.free[class.index].push(chunk);
        self.bytes += class.bytes;
        evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_little_and_grow_with_size() {
        let mut last = class(1).unwrap();
        for bytes in (1..1 << 14).chain((14..40).flat_map(|p| [(1 << p) - 1, 1 << p, (1 << p) + 1])) {
            let class = class(bytes).unwrap();
            assert!(
                class.bytes >= bytes && class.bytes <= (bytes + 63).max(bytes + bytes / 4),
                "{bytes} {class:?}"
            );
            assert!((class.index > last.index) == (class.bytes > last.bytes), "{last:?} {class:?}");
            assert_eq!(super::class(class.bytes), Some(class), "a class holds its own size");
            last = class;
        }
        assert!(class(usize::MAX).is_none() && class(isize::MAX as usize + 1).is_none());
    }

    #[test]
    fn memory_comes_back() {
        let mut list = FreeList::new();
        let class = class(5000).unwrap();
        assert!(list.take(class).is_none());
        assert!(list.put(class, Chunk::allocate(class.bytes).unwrap()).is_empty());
        assert_eq!(list.bytes, class.bytes);
        assert!(list.take(class).is_some_and(|c| c.bytes().len() == class.bytes));
        assert_eq!(list.bytes, 0);
        list.put(class, Chunk::allocate(class.bytes).unwrap());
        let (all, bytes) = list.take_all();
        assert_eq!((all.len(), bytes, list.bytes), (1, class.bytes, 0));
        assert!(list.take(class).is_none());
    }

    #[test]
    fn old_sizes_make_room_for_new_ones() {
        let mut list = FreeList::new();
        let (small, large) = (class(64).unwrap(), Class { index: 3, bytes: MAX_KEPT_BYTES });
        list.put(small, Chunk::allocate(64).unwrap());
        assert_eq!(list.put(large, Chunk::allocate(64).unwrap()).len(), 1);
        assert_eq!(list.bytes, MAX_KEPT_BYTES);
        let more = Class { index: 4, bytes: MAX_KEPT_BYTES + 1 };
        assert_eq!(list.put(more, Chunk::allocate(64).unwrap()).len(), 1);
        assert_eq!(list.bytes, MAX_KEPT_BYTES);
    }

    #[test]
    fn large_memory_is_aligned() {
        let mut chunk = Chunk::new(MIN_MAPPED_BYTES + 1).unwrap();
        assert!(matches!(chunk, Chunk::Mapped(_)));
        assert_eq!(
            (chunk.bytes().as_ptr() as usize % 64, chunk.bytes_mut().len() > MIN_MAPPED_BYTES),
            (0, true)
        );
        chunk.recycle();
    }
}
