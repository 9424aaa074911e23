//! A second backend for what the first one lacks.
use super::Wrapper;
use crate::{
    Backend, Call, Element, Error, Execute, Op, Operands, OutputVisitor, Reason, Result, Space, Tensor,
    TensorMut, mirror,
};
use core::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs on `P` where it can, else on `S`, copying operands there and outputs back.
///
/// Never silent: the first time an op falls back for a reason, a `tracing` warning says so, and
/// [`events`](Fallback::events) lists op, reason and count. [`strict`](Fallback::strict) turns
/// falling back into an error, for benchmarks.
///
/// Only the extent that a view touches is copied. Outputs are written when the op has succeeded.
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
    /// Where it ran.
    pub on: &'static str,
    /// Why the primary declined.
    pub reason: Reason,
    /// How often.
    pub count: u64,
}

impl<P, S> Fallback<P, S> {
    /// `primary` where it can, else `secondary`.
    pub fn new(primary: P, secondary: S) -> Self {
        Fallback { primary, secondary, strict: false, events: Arc::default() }
    }
    /// Answers [`Error::Unsupported`] instead of falling back.
    pub fn strict(self, strict: bool) -> Self {
        Fallback { strict, ..self }
    }
    /// The first choice.
    pub fn primary(&self) -> &P {
        &self.primary
    }
    /// Every op and reason that fell back so far, in order of first appearance. Clones share the list.
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

impl<P: Backend, S: Backend> Wrapper for Fallback<P, S> {
    type Inner = P;
    fn inner(&self) -> &P {
        &self.primary
    }
    fn around(&self, primary: P) -> Self {
        Fallback { primary, ..self.clone() }
    }
}

impl<O: Op, P: Execute<O>, S: Execute<O>> Execute<O> for Fallback<P, S> {
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        let declined = match self.primary.support(op, on) {
            Err(reason) if self.strict => return Err(reason),
            Err(reason) => reason,
            Ok(()) => return Ok(()),
        };
        self.secondary.support(op, on).map_err(|_| declined)
    }

    fn execute(&self, mut call: Call<'_, '_, O, P::Space>) -> Result<()> {
        let op = call.op();
        let Err(reason) = self.primary.support(op, call.operands()) else {
            return self.primary.execute(call);
        };
        if self.strict {
            return Err(Error::Unsupported { op: call.name(), backend: self.primary.name(), reason });
        }
        self.secondary.support(op, call.operands()).map_err(|second| Error::Unsupported {
            op: call.name(),
            backend: self.secondary.name(),
            reason: second,
        })?;
        self.note(call.name(), self.secondary.name(), reason);

        let mut staged = O::mirror(call.args(), &self.primary, &self.secondary)?;
        self.secondary.execute(Call::assume(op, &mut O::lend(&mut staged)))?;
        let mut back = WriteBack { from: &self.secondary, to: &self.primary, space: PhantomData };
        call.lend(|lent| O::visit_outputs(lent.into_parts().1, &staged, &mut back))
    }
}

/// Copies mirrored outputs over the originals.
struct WriteBack<'b, P, Q, S> {
    from: &'b Q,
    to: &'b P,
    space: PhantomData<S>,
}
impl<P: Backend<Space = S>, Q: Backend, S: Space> OutputVisitor<S, Q::Space> for WriteBack<'_, P, Q, S> {
    fn output<T: Element>(
        &mut self,
        _: &'static str,
        output: TensorMut<'_, S, T>,
        mirrored: &Tensor<Q::Space, T>,
    ) -> Result<()> {
        mirror::write_back(mirrored, output, self.from, self.to)
    }
}
