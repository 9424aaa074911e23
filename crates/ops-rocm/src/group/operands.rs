//! The operands of a call, as memory of the device.
use crate::hip::{Access, DeviceMemory, Purpose, Stream};
use crate::{HipRef, HipSpace, Result};
use ops_core::{AnyMut, AnyRef};

/// The operands of a call.
pub(super) struct Operands<'x, 'y> {
    pub(super) x: Option<AnyRef<'x, HipSpace>>,
    pub(super) y: Option<AnyMut<'y, HipSpace>>,
}

impl Operands<'_, '_> {
    /// What the call reads: `x`, or `y` in place. In place, [`output`](Self::output) makes later work wait for the write.
    pub(super) fn input<'s>(&'s self, stream: &'s Stream) -> Result<Area<'s>> {
        match (&self.x, &self.y) {
            (Some(x), _) => area(x.shorten(), stream, Purpose::Read),
            (None, Some(y)) => area(y.as_ref(), stream, Purpose::Read),
            (None, None) => unreachable!("a checked call has operands"),
        }
    }
    pub(super) fn output<'s>(&'s self, stream: &'s Stream) -> Result<Area<'s>> {
        match &self.y {
            Some(y) => area(y.as_ref(), stream, Purpose::Write),
            None => unreachable!("only Send has no output"),
        }
    }
    /// A copy of `y`.
    pub(super) fn copy(&self, stream: &Stream, bytes: usize) -> Result<DeviceMemory> {
        let Some(y) = &self.y else { unreachable!("in place, y is the operand") };
        let mut copy = DeviceMemory::new(stream, bytes)?;
        let from: HipRef<'_, u8> = y.bytes();
        copy.copy_from(
            stream,
            0,
            from.memory(),
            from.offset() + y.layout().offset() * y.dtype().size(),
            bytes,
        )?;
        Ok(copy)
    }
}

/// Memory of an operand, for work on a stream.
pub(super) struct Area<'m> {
    pub(super) access: Access<'m>,
    /// The operand's first byte.
    pub(super) start: usize,
}

impl Area<'_> {
    /// The address of a byte of the operand. Only work that is enqueued while the area lives may use it.
    pub(super) fn at(&self, byte: usize) -> usize {
        self.access.address().addr().wrapping_add(self.start + byte)
    }
}

fn area<'s>(x: AnyRef<'s, HipSpace>, stream: &'s Stream, purpose: Purpose) -> Result<Area<'s>> {
    let bytes = x.bytes();
    let start = bytes.offset() + x.layout().offset() * x.dtype().size();
    Ok(Area { access: bytes.memory().access(stream, purpose)?, start })
}
