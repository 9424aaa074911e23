//! Memory for packed weights.

use crate::error::Error;
use crate::scratch::Line;

/// Asks for the line of the cache that holds the first of these bytes, and does not wait for it. Only x86-64 has such an instruction
/// here.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    crate::x86::prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }, _>(bytes.as_ptr());
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Checks that `bytes` is aligned to a cache line and has at least `want` bytes.
fn check_memory(bytes: &[u8], want: usize) -> Result<(), Error> {
    match want == 0 || (bytes.as_ptr().cast::<Line>().is_aligned() && bytes.len() >= want) {
        true => Ok(()),
        false => Err(Error::Memory { got: bytes.len(), want }),
    }
}

/// The first `want` bytes, for packing into.
pub(crate) fn packing_target(bytes: &mut [u8], want: usize) -> Result<&mut [u8], Error> {
    check_memory(bytes, want)?;
    Ok(&mut bytes[..want])
}

/// Memory of packed weights: owned, or borrowed from a caller that allocates it, for instance in huge pages.
pub(crate) enum PackedMemory<'m> {
    Owned(Vec<Line>),
    Borrowed(&'m [u8]),
}

impl<'m> PackedMemory<'m> {
    /// Owned zeros, rounded up to whole cache lines.
    pub(crate) fn zeros(bytes: usize) -> Self {
        PackedMemory::Owned(vec![Line::ZERO; bytes.div_ceil(64)])
    }
    /// Borrows the first `want` bytes of `bytes`, which must be aligned to a cache line.
    pub(crate) fn borrowed(bytes: &'m [u8], want: usize) -> Result<Self, Error> {
        check_memory(bytes, want)?;
        // An empty slice may have any alignment, and ours is aligned.
        Ok(if want == 0 { Self::zeros(0) } else { PackedMemory::Borrowed(&bytes[..want]) })
    }
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            PackedMemory::Owned(lines) => bytemuck::cast_slice(lines),
            PackedMemory::Borrowed(bytes) => bytes,
        }
    }
    /// At least `want` owned bytes; allocates if there are fewer.
    pub(crate) fn owned_mut(&mut self, want: usize) -> &mut [u8] {
        if !matches!(self, PackedMemory::Owned(lines) if lines.len() * 64 >= want) {
            *self = Self::zeros(want);
        }
        match self {
            PackedMemory::Owned(lines) => &mut bytemuck::cast_slice_mut(lines)[..want],
            PackedMemory::Borrowed(_) => unreachable!("replaced by owned memory above"),
        }
    }
}
