//! Memory that is kept for the next tensor.
//!
//! The first touch of a fresh page costs more than most operations on it. So the memory of a dropped
//! buffer waits here, by size class, for the next of about its size; and large memory asks for huge
//! pages.
use bytemuck::{Pod, Zeroable};
use memmap2::MmapMut;
use std::sync::Mutex;

/// A cache line: the unit, and the alignment, of owned memory.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

/// Bytes from which memory is mapped by itself, in huge pages where the system has them.
const MAPPED: usize = 4 << 20;
/// Bytes kept at most, in all size classes together.
const KEPT: usize = 1 << 30;
/// Size classes: four to each power of two.
const CLASSES: usize = 4 * usize::BITS as usize;

/// Memory aligned to a cache line, of unspecified contents.
pub(super) enum Chunk {
    Lines(Vec<Line>),
    Mapped(MmapMut),
}

impl Chunk {
    /// At least `bytes`; `None` where there is not as much.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        let class = class(bytes)?;
        if class.bytes == 0 {
            return Some(Chunk::Lines(Vec::new()));
        }
        let kept = KEEP.lock().unwrap_or_else(|e| e.into_inner()).take(class);
        kept.or_else(|| Self::fresh(class.bytes))
    }

    fn fresh(bytes: usize) -> Option<Self> {
        if bytes < MAPPED {
            return bytemuck::try_zeroed_vec(bytes / size_of::<Line>()).ok().map(Chunk::Lines);
        }
        let map = MmapMut::map_anon(bytes).ok()?;
        // Without huge pages it is only slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Some(Chunk::Mapped(map))
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Lines(lines) => bytemuck::cast_slice(lines),
            Chunk::Mapped(map) => map,
        }
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Chunk::Lines(lines) => bytemuck::cast_slice_mut(lines),
            Chunk::Mapped(map) => map,
        }
    }

    /// Keeps the memory for later, or gives it back to the system.
    pub(super) fn recycle(self) {
        let Some(class) = class(self.bytes().len()).filter(|class| class.bytes > 0) else { return };
        // What is given back is dropped after the lock is.
        let _rest = KEEP.lock().unwrap_or_else(|e| e.into_inner()).put(class, self);
    }
}

/// A size that memory comes in.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Class {
    index: usize,
    bytes: usize,
}

/// The class for a number of bytes; `None` beyond what memory can hold.
fn class(bytes: usize) -> Option<Class> {
    if bytes == 0 || isize::try_from(bytes).is_err() {
        return (bytes == 0).then_some(Class { index: 0, bytes: 0 });
    }
    // Quarters of the power of two below, a line at least.
    let step = (bytes.next_power_of_two() / 8).max(size_of::<Line>());
    let bytes = bytes.checked_next_multiple_of(step).filter(|b| isize::try_from(*b).is_ok())?;
    let power = bytes.ilog2();
    let quarter = (bytes - (1 << power)) >> (power - 2);
    Some(Class { index: 4 * power as usize + quarter, bytes })
}

/// Gives all kept memory back to the system, and returns how many bytes that was.
pub(crate) fn trim() -> usize {
    // The memory is dropped after the lock is.
    let (_given_back, bytes) = KEEP.lock().unwrap_or_else(|e| e.into_inner()).empty();
    bytes
}

static KEEP: Mutex<Keep> = Mutex::new(Keep::new());

/// Free memory by size class.
struct Keep {
    free: [Vec<Chunk>; CLASSES],
    bytes: usize,
}

impl Keep {
    const fn new() -> Self {
        Keep { free: [const { Vec::new() }; CLASSES], bytes: 0 }
    }

    fn take(&mut self, class: Class) -> Option<Chunk> {
        let chunk = self.free[class.index].pop()?;
        self.bytes -= class.bytes;
        Some(chunk)
    }

    /// Everything that was kept, with its bytes.
    fn empty(&mut self) -> (Vec<Chunk>, usize) {
        let mut all = Vec::new();
        self.free.iter_mut().for_each(|free| all.append(free));
        (all, core::mem::take(&mut self.bytes))
    }

    /// Keeps `chunk` and answers what is given up for it: where all would be too much, everything
    /// that was kept, so that sizes of the past make room for those of now.
    fn put(&mut self, class: Class, chunk: Chunk) -> Vec<Chunk> {
        let mut rest = Vec::new();
        if class.bytes > KEPT {
            return vec![chunk];
        }
        if self.bytes + class.bytes > KEPT {
            rest = self.empty().0;
        }
        self.free[class.index].push(chunk);
        self.bytes += class.bytes;
        rest
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
        let mut keep = Keep::new();
        let class = class(5000).unwrap();
        assert!(keep.take(class).is_none());
        assert!(keep.put(class, Chunk::fresh(class.bytes).unwrap()).is_empty());
        assert_eq!(keep.bytes, class.bytes);
        assert!(keep.take(class).is_some_and(|c| c.bytes().len() == class.bytes));
        assert_eq!(keep.bytes, 0);
        keep.put(class, Chunk::fresh(class.bytes).unwrap());
        let (all, bytes) = keep.empty();
        assert_eq!((all.len(), bytes, keep.bytes), (1, class.bytes, 0));
        assert!(keep.take(class).is_none());
    }

    #[test]
    fn old_sizes_make_room_for_new_ones() {
        let mut keep = Keep::new();
        let (small, large) = (class(64).unwrap(), Class { index: 3, bytes: KEPT });
        keep.put(small, Chunk::fresh(64).unwrap());
        assert_eq!(keep.put(large, Chunk::fresh(64).unwrap()).len(), 1);
        assert_eq!(keep.bytes, KEPT);
        let more = Class { index: 4, bytes: KEPT + 1 };
        assert_eq!(keep.put(more, Chunk::fresh(64).unwrap()).len(), 1);
        assert_eq!(keep.bytes, KEPT);
    }

    #[test]
    fn large_memory_is_aligned() {
        let mut chunk = Chunk::new(MAPPED + 1).unwrap();
        assert!(matches!(chunk, Chunk::Mapped(_)));
        assert_eq!((chunk.bytes().as_ptr() as usize % 64, chunk.bytes_mut().len() > MAPPED), (0, true));
        chunk.recycle();
    }
}
