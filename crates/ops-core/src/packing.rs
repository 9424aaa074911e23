//! Packed tensors: backend-specific layouts that kernels read fastest.
use crate::{DType, Result};
use core::fmt;

/// Writes the elements of a packed tensor in row-major order. Arguments: element type, extents, packed bytes, output.
type Unpack = fn(DType, &[usize], &[u8], &mut [u8]) -> Result<()>;

/// A backend's own order for the elements of a tensor.
///
/// A packing is a property of the view, not of the element type. A packed tensor keeps its element type and its extents, so the
/// op's shape rule, name and tolerance still apply. [`Execute::pack`](crate::Execute::pack) makes one. Only kernels that know
/// the packing read it directly; all other code gets the elements [unpacked](Packing::unpack), on the host.
///
/// A packing must be lossless, and any bytes of the right length must be a valid packed tensor. A format that contains
/// addresses is therefore not a packing.
pub struct Packing {
    name: &'static str,
    bytes: fn(DType, &[usize]) -> Option<usize>,
    align: usize,
    unpack: Unpack,
}

impl Packing {
    /// Defines a packing. `bytes` returns the size of a packed tensor with this type and these extents, or
    /// `None` if it cannot be packed. Packed bytes start at a multiple of `align`. `unpack` writes the
    /// elements in row-major order; its input may have any alignment.
    pub const fn new(
        name: &'static str,
        bytes: fn(DType, &[usize]) -> Option<usize>,
        align: usize,
        unpack: Unpack,
    ) -> Self {
        Packing { name, bytes, align, unpack }
    }
    /// The name in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// The size of a packed tensor in bytes; `None` if a tensor of this type and these extents cannot be packed.
    pub fn bytes(&self, dtype: DType, dims: &[usize]) -> Option<usize> {
        (self.bytes)(dtype, dims)
    }
    /// The alignment of a packed tensor in bytes.
    pub fn align(&self) -> usize {
        self.align
    }
    /// Writes the elements to `plain` in row-major order.
    ///
    /// # Errors
    /// `packed` or `plain` has the wrong length for this type and these extents, or there is no memory.
    pub fn unpack(&self, dtype: DType, dims: &[usize], packed: &[u8], plain: &mut [u8]) -> Result<()> {
        (self.unpack)(dtype, dims, packed, plain)
    }
}

// Also compares names: the linker may duplicate a `static`, so equal packings can have different addresses.
impl PartialEq for Packing {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other) || self.name == other.name
    }
}
impl Eq for Packing {}
impl fmt::Debug for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
