//! Every op twice, compared.
use super::Wrapper;
use crate::{
    Backend, Call, DType, Element, Error, Execute, Op, Operands, OutputVisitor, Reason, Ref, Result, Role,
    Tensor, TensorMut, TensorOf, Tolerance, View,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a [`Checked`] backend does with a wrong result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMismatch {
    /// The call returns [`Error::Mismatch`].
    #[default]
    Fail,
    /// The call succeeds; a `tracing` error tells, and [`Checked::mismatches`] lists it.
    Log,
}

/// Runs every op on both and reports the first output that differs: a whole model, checked op by op.
///
/// The tolerance is the op's own ([`Op::tolerance`]); only elements that a view touches are
/// compared. Results stay those of `P`, so a model computes what it computes without the check.
#[derive(Clone, Debug)]
pub struct Checked<P, R> {
    primary: P,
    reference: R,
    on_mismatch: OnMismatch,
    every: u64,
    calls: Arc<AtomicU64>,
    mismatches: Arc<Mutex<Vec<Error>>>,
}

impl<P, R> Checked<P, R> {
    /// Checks every call of `primary` against `reference` and fails on a mismatch.
    pub fn new(primary: P, reference: R) -> Self {
        Checked {
            primary,
            reference,
            on_mismatch: OnMismatch::Fail,
            every: 1,
            calls: Arc::default(),
            mismatches: Arc::default(),
        }
    }
    /// What happens on a mismatch.
    pub fn on_mismatch(self, on_mismatch: OnMismatch) -> Self {
        Checked { on_mismatch, ..self }
    }
    /// Checks one call in `n`, for long runs; 0 counts as 1.
    pub fn every(self, n: u64) -> Self {
        Checked { every: n.max(1), ..self }
    }
    /// The backend under test.
    pub fn primary(&self) -> &P {
        &self.primary
    }
    /// Calls seen so far, checked or not. Clones count together.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
    /// Mismatches that were logged so far.
    pub fn mismatches(&self) -> Vec<Error> {
        self.mismatches.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The backend that it is checked against.
    pub fn reference(&self) -> &R {
        &self.reference
    }
    /// Counts a call, and tells whether it is one to be checked.
    pub(crate) fn next_is_checked(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every)
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

impl<P: Backend, R: Backend> Checked<P, R> {
    /// Reports where `got` is farther from `want` than `tolerance`.
    pub(crate) fn compare<T: Element>(
        &self,
        op: &'static str,
        output: &'static str,
        tolerance: Tolerance,
        got: Ref<'_, P, T>,
        want: &TensorOf<R, T>,
    ) -> Result<()> {
        let mismatch = mismatch(op, output, tolerance, (&self.primary, got), (&self.reference, want))?;
        mismatch.map_or(Ok(()), |mismatch| self.report(mismatch))
    }
}

/// Where the one is farther from the other than `tolerance`.
fn mismatch<P: Backend, R: Backend, T: Element>(
    op: &'static str,
    output: &'static str,
    tolerance: Tolerance,
    (primary, got): (&P, Ref<'_, P, T>),
    (reference, want): (&R, &TensorOf<R, T>),
) -> Result<Option<Error>> {
    let layout = *got.layout();
    let (got, want) = (got.to_vec(primary)?, want.as_ref().to_vec(reference)?);
    let verdict = tolerance.judge_pair(&got, &want);
    Ok(verdict.bad.map(|at| Error::Mismatch {
        op,
        output,
        index: layout.index_of(at),
        got: format!("{:?}", got[at]),
        want: format!("{:?}", want[at]),
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

impl<O: Op, P: Execute<O>, R: Execute<O>> Execute<O> for Checked<P, R> {
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        self.primary.support(op, on)?;
        self.reference.support(op, on)
    }

    fn execute(&self, mut call: Call<'_, '_, O, P::Space>) -> Result<()> {
        let op = call.op();
        if !self.next_is_checked() {
            return self.primary.execute(call);
        }
        // Before the primary: operands that are read and written are still unchanged.
        let mut reference = O::mirror(call.args(), &self.primary, &self.reference)?;
        self.reference.execute(Call::assume(op, &mut O::lend(&mut reference)))?;
        call.lend(|lent| self.primary.execute(lent))?;
        let (name, on) = (call.name(), call.operands());
        let written = on.iter().filter(|operand| operand.role != Role::In);
        let tolerances = written.map(|y| (y.name, op.tolerance(y.name, y.dtype, on))).collect();
        let mut compare = Compare {
            op: name,
            tolerances,
            primary: &self.primary,
            reference: &self.reference,
            mismatch: None,
        };
        call.lend(|lent| O::visit_outputs(lent.into_parts().1, &reference, &mut compare))?;
        compare.mismatch.map_or(Ok(()), |mismatch| self.report(mismatch))
    }
}

/// Keeps the first mismatch among a call's outputs.
struct Compare<'c, P, R> {
    op: &'static str,
    /// By output.
    tolerances: Vec<(&'static str, Tolerance)>,
    primary: &'c P,
    reference: &'c R,
    mismatch: Option<Error>,
}
impl<P: Backend, R: Backend> OutputVisitor<P::Space, R::Space> for Compare<'_, P, R> {
    fn output<T: Element>(
        &mut self,
        name: &'static str,
        output: TensorMut<'_, P::Space, T>,
        mirrored: &Tensor<R::Space, T>,
    ) -> Result<()> {
        if self.mismatch.is_some() {
            return Ok(());
        }
        let known = self.tolerances.iter().find(|(output, _)| *output == name);
        let tolerance =
            known.map_or_else(|| Tolerance::rounded(DType::of::<T>()), |(_, tolerance)| *tolerance);
        let (got, want) = ((self.primary, output.as_ref()), (self.reference, mirrored));
        self.mismatch = mismatch(self.op, name, tolerance, got, want)?;
        Ok(())
    }
}
