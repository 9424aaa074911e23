//! Tensors in an order that a backend's kernels read fastest.
use crate::{DType, Execute, Op, Operand, Operands, Reason, Result};
use core::fmt;

/// Writes the elements of a tensor of this type and these extents, of which it gets the packed bytes.
type Unpack = fn(DType, &[usize], &[u8], &mut [u8]) -> Result<()>;

/// A backend's own order of a tensor's elements.
///
/// A packing belongs to a view, not to its type: a packed tensor has the element type and the extents that it had, so the op's
/// rule, its name and its tolerance hold as they are. [`Execute::pack`](crate::Execute::pack) makes one. Only kernels that know
/// the order read it; everyone else gets the elements [unpacked](Packing::unpack), on the host.
///
/// A packing loses nothing, and any bytes of the right number are a packed tensor of some values: an order with addresses in it
/// is not one.
pub struct Packing {
    name: &'static str,
    bytes: fn(DType, &[usize]) -> Option<usize>,
    align: usize,
    unpack: Unpack,
}

impl Packing {
    /// An order of this name. `bytes` tells how many bytes a tensor of a type and extents takes, `None` where it cannot be
    /// packed; they begin at a multiple of `align`. `unpack` writes the elements of a packed tensor in row-major order, from
    /// bytes that may begin anywhere.
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
    /// Bytes of a packed tensor; `None` where one of this type and these extents cannot be packed.
    pub fn bytes(&self, dtype: DType, dims: &[usize]) -> Option<usize> {
        (self.bytes)(dtype, dims)
    }
    /// What the address of a packed tensor is a multiple of.
    pub fn align(&self) -> usize {
        self.align
    }
    /// The elements in row-major order, as bytes.
    ///
    /// # Errors
    /// `packed` or `plain` has another length than a tensor of this type and these extents, or there is no memory.
    pub fn unpack(&self, dtype: DType, dims: &[usize], packed: &[u8], plain: &mut [u8]) -> Result<()> {
        (self.unpack)(dtype, dims, packed, plain)
    }
    /// Why a kernel that does not know this order declines.
    pub fn declined(&self, operand: &Operand<'_>) -> Reason {
        Reason::Packed { operand: operand.name, packing: self.name }
    }
}

// One address is one order, but a `static` may be in a program twice.
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

/// Whether a backend's kernels read every operand in the order that it is in: what `support` of a backend with
/// [`reads`](Execute::reads) asks first.
///
/// # Errors
/// [`Reason::Packed`] with the first operand that it does not read.
pub fn reads_all<O: Op, B: Execute<O>>(backend: &B, op: &O, on: &dyn Operands) -> Result<(), Reason> {
    all_read(on, &|operand, packing| backend.reads(op, operand, packing))
}

fn all_read(on: &dyn Operands, reads: &dyn Fn(&'static str, &'static Packing) -> bool) -> Result<(), Reason> {
    on.iter().try_for_each(|operand| match operand.packing {
        Some(packing) if !reads(operand.name, packing) => Err(packing.declined(&operand)),
        _ => Ok(()),
    })
}
