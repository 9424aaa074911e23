//! The owner of a file's bytes: a mapping or heap memory.

use std::fs::{File, Metadata};
use std::io::Read;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytemuck::{Pod, Zeroable};

use crate::error::{Error, Result};
use crate::mapping;

/// The bytes of one file, shared by everything read from it.
pub(crate) enum Source {
    Mapped(memmap2::Mmap),
    Read(AlignedBytes),
    Given(Vec<u8>),
    Joined(Joined),
}

/// Concatenated pieces of other sources.
pub(crate) struct Joined {
    pieces: Vec<(Arc<Source>, Range<usize>)>,
    /// A copy of all of them, made when they are first used as a whole.
    whole: OnceLock<Vec<u8>>,
}

impl Source {
    /// # Safety
    /// As [`mapping::map`].
    pub(crate) unsafe fn map(path: &Path) -> Result<Self> {
        let (file, _) = open(path)?;
        // SAFETY: the caller upholds the contract.
        unsafe { mapping::map(&file) }.map(Self::Mapped).map_err(|e| Error::io("map", path, e))
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let (mut file, len) = open(path)?;
        let mut bytes = AlignedBytes::zeroed(len)
            .ok_or_else(|| Error::io("allocate memory for", path, std::io::ErrorKind::OutOfMemory.into()))?;
        file.read_exact(bytes.as_mut()).map_err(|e| Error::io("read", path, e))?;
        Ok(Self::Read(bytes))
    }

    /// The length, without copying joined pieces.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Joined(joined) => joined.pieces.iter().map(|(_, part)| part.len()).sum(),
            other => other.bytes().len(),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes.as_ref(),
            Self::Given(bytes) => bytes,
            Self::Joined(Joined { pieces, whole }) => whole.get_or_init(|| {
                pieces.iter().flat_map(|(source, part)| &source.bytes()[part.clone()]).copied().collect()
            }),
        }
    }

    /// Concatenates pieces. Each must lie within its source.
    pub(crate) fn joined(pieces: Vec<(Arc<Self>, Range<usize>)>) -> Self {
        Self::Joined(Joined { pieces, whole: OnceLock::new() })
    }

    /// Part of a source. If the source is joined from several pieces, it must lie within one of them.
    pub(crate) fn narrowed(this: &Arc<Self>, part: Range<usize>) -> (Arc<Self>, Range<usize>) {
        if let Self::Joined(Joined { pieces, .. }) = &**this {
            let mut before = 0;
            for (source, piece) in pieces {
                if before <= part.start && part.end - before <= piece.len() {
                    let at = |n: usize| piece.start + n - before;
                    return (Arc::clone(source), at(part.start)..at(part.end));
                }
                before += piece.len();
                if before > part.start {
                    break;
                }
            }
        }
        (Arc::clone(this), part)
    }
}

/// The bytes of a file of any format, read or mapped. Clones share them.
#[derive(Clone)]
pub struct Bytes(pub(crate) Arc<Source>);

impl Bytes {
    /// Reads a file into memory that is aligned to a cache line.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Bytes(Arc::new(Source::read(path.as_ref())?)))
    }

    /// Maps a file into memory.
    ///
    /// # Safety
    /// As [`Gguf::map`](crate::Gguf::map): the file must not be changed in place while this or anything made from it is alive.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: the caller upholds the contract.
        Ok(Bytes(Arc::new(unsafe { Source::map(path.as_ref())? })))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes(Arc::new(Source::Given(bytes)))
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Opens a regular file and returns its length. Pipes and directories have no reliable length, and opening a pipe may wait forever.
pub(crate) fn open(path: &Path) -> Result<(File, u64)> {
    let failed = |e| Error::io("open", path, e);
    let regular = |meta: Metadata| match meta.is_file() {
        true => Ok(meta.len()),
        false => Err(failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file"))),
    };
    regular(std::fs::metadata(path).map_err(failed)?)?;
    let file = File::open(path).map_err(failed)?;
    // Again, because the path may lead elsewhere by now.
    let len = regular(file.metadata().map_err(failed)?)?;
    Ok((file, len))
}

/// Heap memory aligned to a cache line, so that a tensor aligned in the file is aligned in memory.
pub(crate) struct AlignedBytes {
    lines: Vec<Line>,
    len: usize,
}

#[repr(C, align(64))]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Line([u8; 64]);

impl AlignedBytes {
    /// `None` if memory is exhausted.
    fn zeroed(len: u64) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        let count = len.div_ceil(size_of::<Line>());
        // The system zeroes it page by page while the file is read into it.
        let lines = bytemuck::allocation::try_zeroed_vec(count).ok()?;
        Some(Self { lines, len })
    }

    fn as_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}
