//! The checks between user data and kernels.
use crate::{Error, Execute, Lent, Op, Operand, Operands, Reason, Result, Role, Seen, Shape, Slot, Space};

/// A call whose arguments satisfy the op's shape rule and lie inside their memory.
///
/// Only this crate makes one, and it ties the arguments to the op that they were checked for. Safe code therefore cannot run a
/// kernel on unchecked shapes.
pub struct Call<'c, 'a, O: Op, S: Space> {
    op: &'c O,
    args: &'c mut O::Args<'a, S>,
}

impl<'c, 'a, O: Op, S: Space> Call<'c, 'a, O, S> {
    /// Checks the arguments and makes the call. All calls go through here.
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
                if view_is_valid(backend, op, slot, seen, want) { Ok(()) } else { Err(()) }
            }),
        );
        match fine {
            Ok(()) => Ok(Call { op, args }),
            Err(()) => Err(refusal(backend, op, args, outputs.as_ref())),
        }
    }
    /// Wraps arguments that were derived from checked ones.
    #[inline]
    pub(crate) fn assume(op: &'c O, args: &'c mut O::Args<'a, S>) -> Self {
        Call { op, args }
    }
    /// The op.
    #[inline]
    pub fn op(&self) -> &'c O {
        self.op
    }
    /// The op's name for a call on these operands.
    #[inline]
    pub fn name(&self) -> &'static str {
        self.op.name_on(self.operands())
    }
    /// The arguments, for reading.
    #[inline]
    pub fn args(&self) -> &O::Args<'a, S> {
        self.args
    }
    /// The arguments, without their types.
    #[inline]
    pub fn operands(&self) -> &(dyn Operands + '_) {
        &*self.args
    }
    /// Splits the call into op and arguments, for the kernel. A `Call` cannot be rebuilt from its parts.
    #[inline]
    pub fn into_parts(self) -> (&'c O, &'c mut O::Args<'a, S>) {
        (self.op, self.args)
    }
    /// Passes every operand to `see`, with its memory and without its type.
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
    /// Passes the call to `f` and keeps it for later use.
    ///
    /// # Errors
    /// The error of `f`.
    pub fn lend<T>(&mut self, f: impl FnOnce(Call<'_, '_, O, S>) -> Result<T>) -> Result<T> {
        // A copy of the views: `f` may take it apart without changing this call.
        let op = self.op;
        let mut again = O::map(self.args, |_, lent| Some(lent)).ok_or_else(|| lost(op.name()))?;
        f(Call { op, args: &mut again })
    }
}

/// The error for an argument that a backend's memory returned with the wrong alignment. This is a bug in the backend.
pub(crate) fn lost(op: &'static str) -> Error {
    let reason = Reason::Because("the backend's memory is not aligned as `Space` wants it".to_owned());
    Error::Unsupported { op, backend: "a combinator", reason }
}

/// Passes every given operand to the check, with the shape that the rule gives it if it is only written.
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

/// Checks that a view lies inside its memory and has a packing that the backend reads. If it is written, also checks its shape
/// and that no two indices share an element.
/// overlap itself.
#[inline(always)]
fn view_is_valid<O: Op, B: Execute<O>>(
    backend: &B,
    op: &O,
    slot: &Slot,
    seen: &Seen<'_, B::Space>,
    want: Option<&Shape>,
) -> bool {
    let (on, bytes) = (&seen.operand, <B::Space as Space>::len(seen.memory));
    let inside = match on.packing {
        // Multiplies instead of dividing: one division would cost as much as the rest of the check.
        None => on.layout.extent().end.checked_mul(on.dtype.size()).is_some_and(|end| end <= bytes),
        // The size of a packed tensor was checked when it was made.
        Some(packing) => backend.reads(op, slot.name, packing),
    };
    let as_wanted = |want: &Shape| on.layout.dims().iter().eq(want.dims());
    inside && (slot.role == Role::In || (want.is_none_or(as_wanted) && on.layout.is_injective()))
}

/// Finds out why a call was refused. Separate from the check itself, so that the common path stays small.
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
            if view_is_valid(backend, op, slot, seen, want) {
                return Ok(());
            }
            let (on, bytes) = (&seen.operand, <B::Space as Space>::len(seen.memory));
            Err(on
                .packing
                .map_or_else(|| refused(op.name(), on, bytes, want), |p| unsupported(p.declined(on))))
        }),
    );
    // For a backend whose answers change between calls.
    let inconsistent = || {
        unsupported(Reason::Because("the backend read an order of a packed operand, and then not".to_owned()))
    };
    found.err().unwrap_or_else(inconsistent)
}

/// The error for an unpacked view that was refused.
fn refused(op: &'static str, on: &Operand<'_>, bytes: usize, want: Option<&Shape>) -> Error {
    let (operand, layout, len) = (on.name, Box::new(*on.layout), bytes / on.dtype.size());
    match want {
        Some(want) if on.layout.shape() != *want => Error::shape(op, operand, on.layout, want.to_string()),
        _ if !on.layout.fits(len) => Error::OutOfBounds { op, operand, layout, len },
        _ => Error::Overlap { op, operand, layout },
    }
}
