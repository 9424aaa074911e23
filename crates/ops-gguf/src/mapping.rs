//! Memory-mapping a file: the only unsafe code of the crate.

use std::fs::File;

use memmap2::Mmap;

/// Maps a whole file for reading.
///
/// The mapping is private to this process but the pages are the file's own: see [`Gguf::open`](crate::Gguf::open) for
/// what that means when another program changes or truncates the file.
pub(crate) fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only and `Mmap` keeps it alive for as long as any slice of it is reachable. What
    // cannot be upheld here is that no other process writes to the file meanwhile; no program can promise that of its
    // input files, and the public function that leads here says what happens then and names the alternative.
    unsafe { Mmap::map(file) }
}
