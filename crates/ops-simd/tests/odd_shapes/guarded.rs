//! Slices that end where accessible memory ends.
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr;

/// `len` elements, with an inaccessible page directly after the last one.
pub(super) struct Guarded<T> {
    map: *mut u8,
    bytes: usize,
    first: *mut T,
    len: usize,
    of: PhantomData<T>,
}

impl<T: bytemuck::Pod> Guarded<T> {
    pub(super) fn new(len: usize, mut value: impl FnMut() -> T) -> Self {
        const PAGE: usize = 1 << 16; // a multiple of every page size
        let used = (len * size_of::<T>()).next_multiple_of(PAGE);
        let bytes = used + PAGE;
        // SAFETY: new memory, whose last page is made inaccessible. The slice ends before that page; its start is aligned, because
        // the page's is, and its size is a multiple of the alignment.
        let (map, first) = unsafe {
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let map = libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0).cast::<u8>();
            assert!(!ptr::eq(map, libc::MAP_FAILED.cast()));
            assert_eq!(libc::mprotect(map.add(used).cast(), PAGE, libc::PROT_NONE), 0);
            (map, map.add(used).cast::<T>().sub(len))
        };
        let mut slice = Guarded { map, bytes, first, len, of: PhantomData };
        slice.iter_mut().for_each(|x| *x = value());
        slice
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`.
        unsafe { libc::munmap(self.map.cast(), self.bytes) };
    }
}

impl<T> Deref for Guarded<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: as many elements are mapped, and zeros are valid.
        unsafe { core::slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.first, self.len) }
    }
}
