//! The one gate between user data and kernels.
use crate::{Error, Execute, Lent, Op, Operand, Operands, Reason, Result, Role, Seen, Shape, Slot, Space};

/// A call whose arguments have passed the op's shape rule and lie inside their memory.
///
/// Only this crate makes one, and it binds the arguments to the op they were checked for: a kernel
/// cannot be reached from safe code with unchecked shapes.
pub struct Call<'c, 'a, O: Op, S: Space> {
    op: &'c O,
    args: &'c mut O::Args<'a, S>,
}

impl<'c, 'a, O: Op, S: Space> Call<'c, 'a, O, S> {
    /// The one gate between user data and kernels.
    #[inline(always)]
    pub(crate) fn check<B: Execute<O, Space = S>>(
        backend: &B,
        op: &'c O,
        args: &'c mut O::Args<'a, S>,
    ) -> Result<Self> {
        let outputs = op.infer(&O::shapes(args))?;
        check_views(backend, op, args, outputs.as_ref())?;
        Ok(Call { op, args })
    }
    /// Arguments that were made from checked ones.
    #[inline]
    pub(crate) fn assume(op: &'c O, args: &'c mut O::Args<'a, S>) -> Self {
        Call { op, args }
    }
    /// The op.
    #[inline]
    pub fn op(&self) -> &'c O {
        self.op
    }
    /// The op's name for this call.
    #[inline]
    pub fn name(&self) -> &'static str {
        self.op.name_on(self.operands())
    }
    /// The arguments, to look at.
    #[inline]
    pub fn args(&self) -> &O::Args<'a, S> {
        self.args
    }
    /// The arguments without their types.
    #[inline]
    pub fn operands(&self) -> &(dyn Operands + '_) {
        &*self.args
    }
    /// The op and the arguments, for the kernel. There is no way back to a `Call`.
    #[inline]
    pub fn into_parts(self) -> (&'c O, &'c mut O::Args<'a, S>) {
        (self.op, self.args)
    }
    /// Shows every operand with its memory, to be read or written, and without its type.
    pub fn visit<'s>(&'s mut self, see: &mut dyn FnMut(&'static Slot, Lent<'s, S>)) {
        let shown = O::map::<S, S>(self.args, |slot, lent| {
            see(slot, lent);
            None
        });
        drop(shown);
    }
    /// The arguments in another space.
    #[inline(always)]
    pub(crate) fn map<'s, 'r, R: Space>(
        &'s mut self,
        change: impl FnMut(&'static Slot, Lent<'s, S>) -> Option<Lent<'r, R>>,
    ) -> Option<O::Args<'r, R>> {
        O::map(self.args, change)
    }
    /// Lends the call out and keeps it.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn lend<T>(&mut self, f: impl FnOnce(Call<'_, '_, O, S>) -> Result<T>) -> Result<T> {
        // A copy of the views: whoever gets it may take it apart, but cannot change this call.
        let op = self.op;
        let mut again = O::map(self.args, |_, lent| Some(lent)).ok_or_else(|| lost(op.name()))?;
        f(Call { op, args: &mut again })
    }
}

/// What a backend's memory must not lead to: an argument that came back without its alignment.
pub(crate) fn lost(op: &'static str) -> Error {
    let reason = Reason::Because("the backend's memory is not aligned as `Space` wants it".to_owned());
    Error::Unsupported { op, backend: "a combinator", reason }
}

/// Every view lies in its memory and is in an order that the backend reads; every output has its shape and does not overlap
/// itself.
#[inline(always)]
fn check_views<O: Op, B: Execute<O>>(
    backend: &B,
    op: &O,
    args: &O::Args<'_, B::Space>,
    outputs: &[Shape],
) -> Result<()> {
    let mut outputs = outputs.iter();
    O::look(args, |_, slot, seen| {
        let want = if slot.role == Role::Out { outputs.next() } else { None };
        match seen {
            None => Ok(()),
            Some(Seen { operand: Operand { packing: Some(packing), .. }, .. })
                if !backend.reads(op, slot.name, packing) =>
            {
                let reason = Reason::Packed { operand: slot.name, packing: packing.name() };
                Err(Error::Unsupported { op: op.name_on(args), backend: backend.name(), reason })
            }
            Some(seen) => {
                let bytes = <B::Space as Space>::len(seen.memory);
                check_view(slot.role, &seen.operand, bytes, want)
                    .then_some(())
                    .ok_or_else(|| refused(op.name(), &seen.operand, bytes, want))
            }
        }
    })
}

#[inline(always)]
fn check_view(role: Role, on: &Operand<'_>, bytes: usize, want: Option<&Shape>) -> bool {
    // A product and no quotient: a division costs as much as all the rest. What is packed was measured when it was made.
    let end = || on.layout.extent().end.checked_mul(on.dtype.size());
    let inside = on.packing.is_some() || end().is_some_and(|end| end <= bytes);
    inside
        && (role == Role::In
            || (want.is_none_or(|want| on.layout.shape() == *want) && on.layout.is_injective()))
}

/// Why a view is refused: apart, so that what is usual stays small.
#[cold]
#[inline(never)]
fn refused(op: &'static str, on: &Operand<'_>, bytes: usize, want: Option<&Shape>) -> Error {
    let (operand, layout, len) = (on.name, Box::new(*on.layout), bytes / on.dtype.size());
    match want {
        Some(want) if on.layout.shape() != *want => Error::shape(op, operand, on.layout, want.to_string()),
        _ if !on.layout.fits(len) => Error::OutOfBounds { op, operand, layout, len },
        _ => Error::Overlap { op, operand, layout },
    }
}
