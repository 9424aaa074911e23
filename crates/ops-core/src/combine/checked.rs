//! A backend that runs every op twice and compares the results.
use super::{Intercept, Wrapper};
use crate::operand::Unpacked;
use crate::{
    AnyRef, Backend, Call, Error, Execute, NamedTensors, Op, Operand, Operands, Reason, Result, Role,
    Tolerance,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a [`Checked`] backend does with a wrong result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMismatch {
    /// The call returns [`Error::Mismatch`].
    #[default]
    Fail,
    /// The call succeeds. The mismatch is logged as a `tracing` error, and [`Checked::mismatches`] lists it.
    Log,
}

/// Runs every op on two backends and reports the first output that differs, so that a whole model is checked
/// op by op.
///
/// The op defines the tolerance ([`Op::tolerance`]). Only elements that a view refers to are compared. The model continues with
/// the results of `P`, so the check does not change its output.
#[derive(Clone, Debug)]
pub struct Checked<P, R> {
    primary: P,
    reference: R,
    on: bool,
    on_mismatch: OnMismatch,
    every: u64,
    calls: Arc<AtomicU64>,
    mismatches: Arc<Mutex<Vec<Error>>>,
}

impl<P, R> Checked<P, R> {
    /// Checks every call of `primary` against `reference`; a mismatch is an error.
    pub fn new(primary: P, reference: R) -> Self {
        Checked {
            primary,
            reference,
            on: true,
            on_mismatch: OnMismatch::Fail,
            every: 1,
            calls: Arc::default(),
            mismatches: Arc::default(),
        }
    }
    /// Sets whether to check and count calls. When off, a call costs the same as on the backend under test,
    /// and the reference need not support it.
    pub fn on(self, on: bool) -> Self {
        Checked { on, ..self }
    }
    /// Sets what happens on a mismatch.
    pub fn on_mismatch(self, on_mismatch: OnMismatch) -> Self {
        Checked { on_mismatch, ..self }
    }
    /// Checks only one call in `n`, for long runs; 0 counts as 1.
    pub fn every(self, n: u64) -> Self {
        Checked { every: n.max(1), ..self }
    }
    /// The backend under test.
    pub fn primary(&self) -> &P {
        &self.primary
    }
    /// Number of calls so far, checked or not. Clones share the count.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
    /// The mismatches logged so far.
    pub fn mismatches(&self) -> Vec<Error> {
        self.mismatches.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The backend that results are compared with.
    pub fn reference(&self) -> &R {
        &self.reference
    }
    /// Counts a call and returns whether to check it.
    pub(crate) fn next_is_checked(&self) -> bool {
        self.on && self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every)
    }

    fn report(&self, mismatch: Error) -> Result<()> {
        match self.on_mismatch {
            OnMismatch::Fail => Err(mismatch),
            OnMismatch::Log => {
                tracing::error!(%mismatch, "checked op differs");
                self.mismatches.lock().unwrap_or_else(PoisonError::into_inner).push(mismatch);
                Ok(())
            }
        }
    }
}

/// The mismatch error, if `tolerance` does not allow the difference between the outputs.
fn mismatch<P: Backend, R: Backend>(
    (op, output, tolerance): (&'static str, &'static str, Tolerance),
    (primary, got): (&P, AnyRef<'_, P::Space>),
    (reference, want): (&R, AnyRef<'_, R::Space>),
) -> Result<Option<Error>> {
    let (dtype, layout) = (got.dtype(), *got.layout());
    let (got, want) = (got.to_vec(primary)?, want.to_vec(reference)?);
    let verdict = tolerance.judge_pair(dtype, &got, &want);
    let element = |bytes: &[u8], at: usize| dtype.show(&bytes[at * dtype.size()..][..dtype.size()]);
    Ok(verdict.bad.map(|at| Error::Mismatch {
        op,
        output,
        index: layout.index_of(at).into(),
        got: element(&got, at),
        want: element(&want, at),
        nmse: verdict.nmse,
        limit: verdict.limit,
    }))
}

impl<P: Backend, R: Backend> Wrapper for Checked<P, R> {
    type Inner = P;
    fn inner(&self) -> &P {
        &self.primary
    }
    fn around(&self, primary: P) -> Self {
        Checked { primary, ..self.clone() }
    }
}

impl<O: Op, P: Execute<O>, R: Execute<O>> Intercept<O> for Checked<P, R> {
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        self.primary.support(op, on)?;
        if !self.on {
            return Ok(());
        }
        self.reference.support(op, &Unpacked(on))
    }

    fn execute(&self, mut call: Call<'_, '_, O, P::Space>) -> Result<()> {
        let op = call.op();
        if !self.next_is_checked() {
            return self.primary.execute(call);
        }
        // Copied before the primary runs, because it overwrites operands that are read and written.
        let mut reference = NamedTensors::mirror(op, call.args(), &self.primary, &self.reference)?;
        self.reference.execute(Call::assume(op, &mut reference.args(op)?))?;
        call.lend(|lent| self.primary.execute(lent))?;
        let mut first = None;
        O::for_each_operand(call.args(), |_, slot, info| -> Result<()> {
            let (Some(y), Some(want)) = (info, reference.get(slot.name)) else { return Ok(()) };
            if slot.role == Role::In || first.is_some() {
                return Ok(());
            }
            let Operand { name, dtype, layout, .. } = y.operand;
            let promise = (call.name(), name, op.tolerance(name, dtype, call.operands()));
            let got = AnyRef::new(y.memory, dtype, *layout)?;
            first = mismatch(promise, (&self.primary, got), (&self.reference, want.as_ref()))?;
            Ok(())
        })?;
        first.map_or(Ok(()), |mismatch| self.report(mismatch))
    }
}
