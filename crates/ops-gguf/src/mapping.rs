//! Memory-maps a file. This is the only unsafe code of the crate.

use std::fs::File;

use memmap2::Mmap;

/// Maps a whole file for reading.
///
/// # Safety
/// The file must not be changed or truncated while the mapping is alive, because its pages are the file's own.
pub(crate) unsafe fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only, `Mmap` keeps it alive for as long as any slice of it is reachable, and the caller
    // guarantees that the file does not change.
    unsafe { Mmap::map(file) }
}
