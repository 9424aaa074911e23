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
        let fine = O::look(
            args,
            views_against(outputs.as_ref(), |slot, seen, want| {
                if stands(backend, op, slot, seen, want) { Ok(()) } else { Err(()) }
            }),
        );
        match fine {
            Ok(()) => Ok(Call { op, args }),
            Err(()) => Err(refusal(backend, op, args, outputs.as_ref())),
        }
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

/// Shows every operand that was given beside the shape that the rule gives it, if it is one that is only written.
#[inline(always)]
fn views_against<'s, 'o, S: Space, Stop>(
    outputs: &'o [Shape],
    mut check: impl FnMut(&Slot, &Seen<'s, S>, Option<&'o Shape>) -> Result<(), Stop>,
) -> impl FnMut(usize, &'static Slot, Option<Seen<'s, S>>) -> Result<(), Stop> {
    let mut outputs = outputs.iter();
    move |_, slot, seen| {
        let want = if slot.role == Role::Out { outputs.next() } else { None };
        seen.map_or(Ok(()), |seen| check(slot, &seen, want))
    }
}

/// Whether a view lies in its memory and is in an order that the backend reads, and, if it is written, has its shape and does not
/// overlap itself.
#[inline(always)]
fn stands<O: Op, B: Execute<O>>(
    backend: &B,
    op: &O,
    slot: &Slot,
    seen: &Seen<'_, B::Space>,
    want: Option<&Shape>,
) -> bool {
    let (on, bytes) = (&seen.operand, <B::Space as Space>::len(seen.memory));
    let inside = match on.packing {
        // A product and no quotient: a division costs as much as all the rest.
        None => on.layout.extent().end.checked_mul(on.dtype.size()).is_some_and(|end| end <= bytes),
        // What is packed was measured when it was made.
        Some(packing) => backend.reads(op, slot.name, packing),
    };
    let as_wanted = |want: &Shape| on.layout.dims().iter().eq(want.dims());
    inside && (slot.role == Role::In || (want.is_none_or(as_wanted) && on.layout.is_injective()))
}

/// Why a call is refused: apart and found anew, so that what is usual stays small.
#[cold]
#[inline(never)]
fn refusal<O: Op, B: Execute<O>>(
    backend: &B,
    op: &O,
    args: &O::Args<'_, B::Space>,
    outputs: &[Shape],
) -> Error {
    let unsupported = |reason| Error::Unsupported { op: op.name_on(args), backend: backend.name(), reason };
    let found = O::look(
        args,
        views_against(outputs, |slot, seen, want| {
            if stands(backend, op, slot, seen, want) {
                return Ok(());
            }
            let (on, bytes) = (&seen.operand, <B::Space as Space>::len(seen.memory));
            Err(on
                .packing
                .map_or_else(|| refused(op.name(), on, bytes, want), |p| unsupported(p.declined(on))))
        }),
    );
    // A backend that does not answer the same when it is asked again.
    let unsteady = || {
        unsupported(Reason::Because("the backend read an order of a packed operand, and then not".to_owned()))
    };
    found.err().unwrap_or_else(unsteady)
}

/// Why a plain view is refused.
fn refused(op: &'static str, on: &Operand<'_>, bytes: usize, want: Option<&Shape>) -> Error {
    let (operand, layout, len) = (on.name, Box::new(*on.layout), bytes / on.dtype.size());
    match want {
        Some(want) if on.layout.shape() != *want => Error::shape(op, operand, on.layout, want.to_string()),
        _ if !on.layout.fits(len) => Error::OutOfBounds { op, operand, layout, len },
        _ => Error::Overlap { op, operand, layout },
    }
}
