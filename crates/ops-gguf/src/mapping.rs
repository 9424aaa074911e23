//! Memory-mapping a file: the only unsafe code of the crate.

use std::fs::File;

use memmap2::Mmap;

/// Maps a whole file for reading.
///
/// # Safety
/// Nobody changes or truncates the file while the mapping is alive: its pages are the file's own.
pub(crate) unsafe fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only, `Mmap` keeps it alive for as long as any slice of it is reachable, and the
    // caller promises that the file stays as it is.
    unsafe { Mmap::map(file) }
}
