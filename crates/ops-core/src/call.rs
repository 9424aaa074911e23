//! The checks between user data and kernels.
use crate::{
    Borrowed, Error, Op, Operand, OperandInfo, OperandSlot, Operands, Packing, Reason, Result, Role, Shape,
    Space,
};

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
    pub(crate) fn check(
        op: &'c O,
        args: &'c mut O::Args<'a, S>,
        backend: &'static str,
        reads: impl Fn(&'static str, &'static Packing) -> bool,
    ) -> Result<Self> {
        let outputs = op.infer(&O::shapes(args))?;
        Self::check_inferred(op, args, &outputs, backend, reads)
    }
    /// As [`check`](Self::check), where `outputs` is what the shape rule returned for these very inputs.
    #[inline(always)]
    pub(crate) fn check_inferred(
        op: &'c O,
        args: &'c mut O::Args<'a, S>,
        outputs: &O::Outputs,
        backend: &'static str,
        reads: impl Fn(&'static str, &'static Packing) -> bool,
    ) -> Result<Self> {
        let mut rest = outputs.as_ref().iter();
        let fine = O::for_each_operand(args, |place, slot, info| {
            let want = if slot.role == Role::Out { rest.next() } else { None };
            match info {
                Some(info) if !view_is_valid::<S>(slot, &info, want, &reads) => {
                    Err((place, <S as Space>::len(info.memory)))
                }
                _ => Ok(()),
            }
        });
        match fine {
            Ok(()) => Ok(Call { op, args }),
            Err((place, bytes)) => {
                let on: &dyn Operands = &*args;
                let named = Named { op: op.name(), on_these: op.name_on(on), backend };
                Err(refusal(&named, O::SLOTS, on, (place, bytes), outputs.as_ref()))
            }
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
    /// Passes each operand to `see`: its slot and its untyped view.
    pub fn visit<'s>(&'s mut self, see: &mut dyn FnMut(&'static OperandSlot, Borrowed<'s, S>)) {
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
        change: impl FnMut(&'static OperandSlot, Borrowed<'s, S>) -> Option<Borrowed<'r, R>>,
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
    let reason = Reason::Because("the backend's memory is not aligned as `Space` requires".to_owned());
    Error::Unsupported { op, backend: "a combinator", reason }
}

/// Checks that a view lies inside its memory and has a packing that the backend reads. If it is written, also checks its shape
/// and that no two indices share an element.
#[inline(always)]
fn view_is_valid<S: Space>(
    slot: &OperandSlot,
    info: &OperandInfo<'_, S>,
    want: Option<&Shape>,
    reads: impl Fn(&'static str, &'static Packing) -> bool,
) -> bool {
    let (on, bytes) = (&info.operand, S::len(info.memory));
    let inside = match on.packing {
        // Multiplies instead of dividing: one division would cost as much as the rest of the check.
        None => on.layout.extent().end.checked_mul(on.dtype.size()).is_some_and(|end| end <= bytes),
        // The size of a packed tensor was checked when it was made.
        Some(packing) => reads(slot.name, packing),
    };
    let as_wanted = |want: &Shape| on.layout.dims().iter().eq(want.dims());
    inside && (slot.role == Role::In || (want.is_none_or(as_wanted) && on.layout.is_injective()))
}

/// What an error says about a call: the op, its name on these operands, and the backend.
struct Named {
    op: &'static str,
    on_these: &'static str,
    backend: &'static str,
}

/// Why a call was refused: what is wrong with the operand at this index, whose memory has this many bytes.
/// Separate from the check itself, so that it is compiled once for all ops.
#[cold]
#[inline(never)]
fn refusal(
    named: &Named,
    slots: &[OperandSlot],
    on: &dyn Operands,
    (place, bytes): (usize, usize),
    outputs: &[Shape],
) -> Error {
    let &Named { op, on_these, backend } = named;
    let Some(refused_one) = on.operand(place) else { return lost(op) };
    if let Some(packing) = refused_one.packing {
        return Error::Unsupported { op: on_these, backend, reason: packing.declined(&refused_one) };
    }
    let written_before = slots.iter().take(place).filter(|slot| slot.role == Role::Out).count();
    let want = outputs.get(written_before).filter(|_| refused_one.role == Role::Out);
    refused(op, &refused_one, bytes, want)
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
