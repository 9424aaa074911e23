//! A backend that runs unsupported ops on a second backend.
use super::{Intercept, Wrapper};
use crate::named::write_back;
use crate::operand::Unpacked;
use crate::replay::not_recorded;
use crate::{
    Backend, Call, Determinism, Error, Execute, NamedTensors, Op, Operands, Packing, Reason, Result, Tried,
    reads_all,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs each op on `P` if it can, and otherwise on `S`, copying operands to `S` and outputs back.
///
/// A fallback is never silent. The first time an op falls back for a reason, a `tracing` warning says so, and
/// [`events`](Fallback::events) lists op, reason and count. For benchmarks, [`strict`](Fallback::strict) makes it an error.
///
/// A call that falls back cannot be recorded ([`Replay`](crate::Replay)): its copies wait for the host.
///
/// Only the extent that a view refers to is copied. Outputs are written after the op has succeeded.
#[derive(Clone, Debug)]
pub struct Fallback<P, S> {
    primary: P,
    secondary: S,
    strict: bool,
    events: Arc<Mutex<Vec<FallbackEvent>>>,
}

/// An op that ran on the secondary backend, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackEvent {
    /// The op.
    pub op: &'static str,
    /// The backend that it ran on.
    pub on: &'static str,
    /// Why the primary declined.
    pub reason: Reason,
    /// How many times.
    pub count: u64,
}

impl<P, S> Fallback<P, S> {
    /// Runs on `primary` if it can, and otherwise on `secondary`.
    pub fn new(primary: P, secondary: S) -> Self {
        Fallback { primary, secondary, strict: false, events: Arc::default() }
    }
    /// Sets whether to return [`Error::Unsupported`] instead of falling back.
    pub fn strict(self, strict: bool) -> Self {
        Fallback { strict, ..self }
    }
    /// The backend that is tried first.
    pub fn primary(&self) -> &P {
        &self.primary
    }
    /// Every op and reason that fell back so far, in order of first occurrence. Clones share the list.
    pub fn events(&self) -> Vec<FallbackEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, op: &'static str, on: &'static str, reason: Reason) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = events.iter_mut().find(|e| e.op == op && e.reason == reason) {
            known.count += 1;
            return;
        }
        tracing::warn!(op, on, %reason, "op falls back");
        events.push(FallbackEvent { op, on, reason, count: 1 });
    }
}

impl<P, S> Fallback<P, S> {
    /// Whether the primary supports this call, including the packing of its operands.
    #[inline]
    fn primary_support<O: Op>(&self, op: &O, on: &dyn Operands) -> Result<(), Reason>
    where
        P: Execute<O>,
    {
        reads_all(&self.primary, op, on)?;
        self.primary.support(op, on)
    }
}

impl<P: Backend, S: Backend> Fallback<P, S> {
    /// Runs a call that the primary declined on the secondary.
    #[cold]
    fn fall_back<O: Op>(&self, call: Call<'_, '_, O, P::Space>, reason: Reason) -> Result<()>
    where
        S: Execute<O>,
    {
        let op = call.op();
        if self.strict {
            return Err(Error::Unsupported { op: call.name(), backend: self.primary.name(), reason });
        }
        if self.primary.capturing() {
            let why =
                format!("{reason}; a call that falls back to {} cannot be recorded", self.secondary.name());
            return Err(not_recorded(call.name(), self.primary.name(), why));
        }
        self.secondary.support(op, &Unpacked(call.operands())).map_err(|second| Error::Unsupported {
            op: call.name(),
            backend: self.secondary.name(),
            reason: second,
        })?;
        self.note(call.name(), self.secondary.name(), reason);

        let mut staged = NamedTensors::mirror(op, call.args(), &self.primary, &self.secondary)?;
        self.secondary.execute(Call::assume(op, &mut staged.args(op)?))?;
        staged.outputs(op, call.into_parts().1, |_, y, computed| {
            write_back(computed, y, &self.secondary, &self.primary)
        })
    }
}

impl<P: Backend, S: Backend> Wrapper for Fallback<P, S> {
    type Inner = P;
    fn inner(&self) -> &P {
        &self.primary
    }
    fn around(&self, primary: P) -> Self {
        Fallback { primary, ..self.clone() }
    }
}

impl<O: Op, P: Execute<O>, S: Execute<O>> Intercept<O> for Fallback<P, S> {
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        let declined = match self.primary_support(op, on) {
            Err(reason) if self.strict => return Err(reason),
            Err(reason) => reason,
            Ok(()) => return Ok(()),
        };
        self.secondary.support(op, &Unpacked(on)).map_err(|_| declined)
    }

    fn execute(&self, call: Call<'_, '_, O, P::Space>) -> Result<()> {
        let tried = match reads_all(&self.primary, call.op(), call.operands()) {
            Ok(()) => self.primary.try_execute(call)?,
            Err(reason) => Tried::Declined(call, reason),
        };
        match tried {
            Tried::Done => Ok(()),
            Tried::Declined(call, reason) => self.fall_back(call, reason),
        }
    }

    fn determinism(&self, op: &O, on: &dyn Operands) -> Determinism {
        match self.primary_support(op, on) {
            Ok(()) => self.primary.determinism(op, on),
            Err(_) => self.secondary.determinism(op, &Unpacked(on)),
        }
    }
    /// Accepts every packing: what the primary cannot read is unpacked for the secondary.
    fn reads(&self, _: &O, _: &'static str, _: &'static Packing) -> bool {
        true
    }
}
