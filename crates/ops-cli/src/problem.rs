//! An op on tensors of given types and shapes: explained without memory, or loaded, checked and run.
use crate::catalogue::{Cost, Entry, Operand, Spec};
use crate::exit::Failure;
use ops_core::ops::Attention;
use ops_core::{DType, Layout, Operands, Result, Role, Shape, Tolerance};
use ops_test::erased::Prepared;

mod call;
mod candidate;
mod options;
mod plan;
mod recorded;
mod synthetic;

use call::Loaded;
use plan::{Plan, fill};
use synthetic::Fill;

#[cfg(test)]
pub(crate) use call::bind;
pub(crate) use call::{Call, call_on};
pub(crate) use candidate::{Candidate, Explain};
pub(crate) use recorded::{Form, Recording};

/// A problem on a backend.
pub(crate) struct Problem {
    call: Box<dyn Call>,
    /// The same call on the reference.
    reference: Box<dyn Call>,
    entry: &'static Entry,
    plan: Plan,
    operands: Vec<Operand>,
    /// Whether the results along the contract's axis are independent, as they are with the options used by
    /// models.
    divisible: bool,
    /// Which keys each query of attention sees.
    scores: Attention<f32>,
}

/// A problem with memory.
pub(crate) struct Running<'p> {
    problem: &'p Problem,
    loaded: Box<dyn Loaded + 'p>,
}

/// The tensors of a problem and the candidates to run it.
pub(crate) struct Explanation {
    pub(crate) operands: Vec<Operand>,
    pub(crate) candidates: Vec<Candidate>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checked {
    /// Values compared.
    pub(crate) values: usize,
    /// The first difference, as text.
    pub(crate) mismatch: Option<String>,
    /// Error and limit of the output that comes closest to its limit; `None` if all outputs must be exact.
    pub(crate) worst: Option<(f64, f64)>,
}

impl Problem {
    /// Applies the op's shape rule. Both calls are those of `spec`.
    ///
    /// # Errors
    /// The shapes break the rule.
    pub(crate) fn new(call: Box<dyn Call>, reference: Box<dyn Call>, spec: Spec) -> Result<Self, Failure> {
        match plan(&spec, &*call) {
            Ok((plan, operands)) => {
                let scores = if spec.causal { Attention::causal() } else { Attention::full() };
                Ok(Problem { call, reference, entry: spec.entry, plan, operands, divisible: true, scores })
            }
            Err(e) => {
                let (op, contract) = (spec.entry.name, spec.entry.contract.text());
                Err(Failure::Usage(format!("{e}; the operands of {op} are {contract}")))
            }
        }
    }

    /// Allocates nothing, so it works for any shape.
    pub(crate) fn explain(&self) -> Explanation {
        let candidates = self.call.candidates(&self.plan.outline());
        Explanation { operands: self.operands.clone(), candidates }
    }

    /// Bytes and arithmetic.
    pub(crate) fn cost(&self) -> Cost {
        Cost::of(self.entry, &self.operands, &self.scores)
    }

    /// Allocates and fills the operands.
    ///
    /// # Errors
    /// The backend is out of memory, or a transfer fails.
    pub(crate) fn load(&self) -> Result<Running<'_>> {
        Ok(Running { problem: self, loaded: self.call.load(&self.plan)? })
    }

    /// How many of the independent results to check, so that the reference takes at most about `limit`
    /// operations; `None` for all.
    pub(crate) fn keep(&self, limit: f64) -> Option<usize> {
        let cost = self.cost();
        let first = self.operands.iter().find(|o| self.cut(o.name, o.dims.len()).is_some())?;
        let extent = first.dims[self.cut(first.name, first.dims.len())?];
        let work = cost.flops.max(cost.values as f64);
        let keep = ((extent as f64 * limit / work.max(1.0)) as usize).max(1);
        (keep < extent).then_some(keep)
    }

    /// The axis of an operand along which results are independent.
    fn cut(&self, operand: &str, rank: usize) -> Option<usize> {
        if self.divisible { self.entry.contract.axis(operand, self.entry.cut, rank) } else { None }
    }

    /// The last `keep` results of a view of an operand.
    fn narrow(&self, operand: &str, layout: &Layout, keep: Option<usize>) -> Result<Layout> {
        match (self.cut(operand, layout.rank()), keep) {
            (Some(axis), Some(keep)) => layout.narrow(axis as isize, layout.dims()[axis] - keep, keep),
            _ => Ok(*layout),
        }
    }
}

/// The operands of a spec, outputs included.
fn plan(spec: &Spec, call: &dyn Call) -> Result<(Plan, Vec<Operand>)> {
    let mut plan = Plan::default();
    for (name, dims) in &spec.shapes {
        let dtype = spec.types.get(spec.entry, name);
        plan.set(name, dtype, Layout::contiguous(dims)?, fill(spec.entry, name, |other| spec.shape(other)));
    }
    let op = call.op();
    // The op fixes the types of some outputs.
    let typed =
        |slot: &ops_core::OperandSlot| slot.dtype.unwrap_or_else(|| spec.types.get(spec.entry, slot.name));
    let outputs: Vec<_> =
        op.slots().iter().filter(|slot| slot.role == Role::Out).map(|slot| (slot, typed(slot))).collect();
    let place = |plan: &mut Plan, shapes: &[Shape]| {
        // The op returns a shape for optional outputs too, which are left out.
        for ((slot, dtype), shape) in outputs.iter().zip(shapes).filter(|((slot, _), _)| !slot.optional) {
            plan.set(slot.name, *dtype, Layout::of(*shape), Fill::Signed);
        }
    };
    // Outputs are scalars until the op has determined their shapes.
    place(&mut plan, &vec![Shape::new(&[])?; outputs.len()]);
    let shapes = op.infer(&plan.outline())?;
    place(&mut plan, &shapes);
    let operands = described(&plan.outline().operands(op.slots()));
    Ok((plan, operands))
}

fn described(on: &dyn Operands) -> Vec<Operand> {
    let described = |o: ops_core::Operand<'_>| {
        let dims = o.layout.dims().to_vec();
        Operand { name: o.name, role: o.role, dtype: o.dtype, dims }
    };
    on.iter().map(described).collect()
}

impl Running<'_> {
    /// Passes the call to `with`, which may make it any number of times.
    ///
    /// # Errors
    /// Errors of the op and of `with`.
    pub(crate) fn prepare(&mut self, with: &mut dyn FnMut(&mut Prepared<'_>) -> Result<()>) -> Result<()> {
        self.loaded.prepare(with)
    }

    /// Runs the op once and compares with the reference: everything, or the last of the independent results if the
    /// reference would take more than about `limit` operations. Must be the first run, since in-place ops change their
    /// inputs.
    ///
    /// # Errors
    /// Errors of the op. A wrong result is not an error but a [`Checked::mismatch`].
    pub(crate) fn check(&mut self, limit: f64) -> Result<Checked> {
        let problem = self.problem;
        let keep = problem.keep(limit);
        let part = problem.plan.narrowed(|name, layout| problem.narrow(name, layout, keep))?;
        let mut reference = problem.reference.load(&part)?;
        self.loaded.prepare(&mut |call| call.run())?;
        reference.prepare(&mut |call| call.run())?;
        let (op, outline) = (problem.call.op(), part.outline());
        let mut found = Checked::default();
        for Operand { name, dtype, .. } in problem.operands.iter().filter(|o| o.role != Role::In) {
            let (layout, got) = self.loaded.read(name, &|layout| problem.narrow(name, layout, keep))?;
            let (_, want) = reference.read(name, &|layout| Ok(*layout))?;
            let tolerance = op.tolerance(name, *dtype, &outline);
            found.compare((name, *dtype, &layout), &got, &want, tolerance);
        }
        Ok(found)
    }
}

impl Checked {
    /// Adds an output, as bytes.
    fn compare(
        &mut self,
        (name, dtype, layout): (&str, DType, &Layout),
        got: &[u8],
        want: &[u8],
        tolerance: Tolerance,
    ) {
        let size = dtype.size();
        let verdict = tolerance.judge_pair(dtype, got, want);
        self.values += got.len() / size;
        let ratio = |(nmse, limit): (f64, f64)| nmse / f64::max(limit, f64::MIN_POSITIVE);
        let error = (verdict.nmse, verdict.limit);
        if tolerance != Tolerance::Exact && self.worst.is_none_or(|worst| ratio(error) > ratio(worst)) {
            self.worst = Some(error);
        }
        if let (Some(at), None) = (verdict.bad, &self.mismatch) {
            let element = |bytes: &[u8]| dtype.show(&bytes[at * size..][..size]);
            self.mismatch = Some(format!(
                "{name}{:?} is {}, the reference has {} (nmse {:.3e}, limit {:.3e})",
                layout.index_of(at),
                element(got),
                element(want),
                verdict.nmse,
                verdict.limit
            ));
        }
    }
}
