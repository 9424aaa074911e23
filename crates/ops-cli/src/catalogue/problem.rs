//! An op on tensors of given types and shapes: explained without memory, or loaded, checked and run.
use super::call::{Call, Loaded, Prepared};
use super::synthetic::{Fill, Recipe, Rules};
use super::typed::typed;
use super::{Cost, Explanation, Operand, Spec};
use crate::backend::{Choice, Observing, host};
use crate::exit::Failure;
use ops_core::{AnyTensor, DType, Layout, NamedTensors, Operands, Result, Role, Shape, Tolerance};
use ops_test::SuiteBackend;

/// A problem on a backend.
pub(crate) struct Problem {
    call: Box<dyn Call>,
    /// The same on the reference.
    reference: Box<dyn Call>,
    spec: Spec,
    plan: Plan,
    operands: Vec<Operand>,
}

/// A problem with memory.
pub(crate) struct Running<'p> {
    problem: &'p Problem,
    loaded: Box<dyn Loaded + 'p>,
}

/// What a comparison found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checked {
    /// Values compared.
    pub(crate) values: usize,
    /// The first difference, in words.
    pub(crate) mismatch: Option<String>,
}

/// Where each operand lies and what it holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan(Vec<Planned>);

/// An operand of a plan.
#[derive(Clone, Debug)]
struct Planned {
    name: &'static str,
    dtype: DType,
    layout: Layout,
    recipe: Recipe,
}

impl Plan {
    /// Adds an operand, in place of one of the same name.
    fn set(&mut self, name: &'static str, dtype: DType, layout: Layout, fill: Fill) {
        self.0.retain(|planned| planned.name != name);
        self.0.push(Planned { name, dtype, layout, recipe: Recipe::new(layout.extent().end, name, fill) });
    }
    /// The operands as tensors.
    pub(super) fn tensors(&self) -> Result<NamedTensors<Rules>> {
        let mut tensors = NamedTensors::new();
        for Planned { name, dtype, layout, recipe } in &self.0 {
            tensors.insert(name, AnyTensor::new(recipe.as_bytes(*dtype), *dtype, *layout)?);
        }
        Ok(tensors)
    }
}

impl Problem {
    /// Finds the typed call and applies the op's shape rule.
    ///
    /// # Errors
    /// The types are not offered together, or the shapes break the rule.
    pub(crate) fn new<B: Observing + SuiteBackend>(backend: &B, spec: Spec) -> Result<Self, Failure> {
        Self::of(typed(backend, &spec)?, spec)
    }

    fn of(call: Box<dyn Call>, spec: Spec) -> Result<Self, Failure> {
        let reference = typed(&host(Choice::Reference), &spec)?;
        match Self::plan(&spec, &*call) {
            Ok((plan, operands)) => Ok(Problem { call, reference, spec, plan, operands }),
            Err(e) => {
                let (op, contract) = (spec.entry.name, spec.entry.contract.text());
                Err(Failure::Usage(format!("{e}; the operands of {op} are {contract}")))
            }
        }
    }

    fn plan(spec: &Spec, call: &dyn Call) -> Result<(Plan, Vec<Operand>)> {
        let mut plan = Plan::default();
        for (name, dims) in &spec.shapes {
            let dtype = spec.types.get(spec.entry, name);
            plan.set(name, dtype, Layout::contiguous(dims)?, fill(spec, name));
        }
        let slots = spec.entry.op.slots(spec.types.runs_in).iter();
        let outputs: Vec<_> = slots.filter(|slot| slot.role == Role::Out).map(|slot| slot.name).collect();
        let place = |plan: &mut Plan, shapes: &[Shape]| {
            for (name, shape) in outputs.iter().zip(shapes) {
                plan.set(name, spec.types.get(spec.entry, name), Layout::of(*shape), Fill::Signed);
            }
        };
        // Outputs are scalars until the op has told their shapes.
        place(&mut plan, &vec![Shape::new(&[])?; outputs.len()]);
        let shapes = call.look(&plan, &mut |_| ())?;
        place(&mut plan, &shapes);
        let mut operands = Vec::new();
        call.look(&plan, &mut |on| operands = seen(on))?;
        Ok((plan, operands))
    }

    /// Its tensors, and who would run it. Allocates nothing.
    ///
    /// # Errors
    /// The layouts cannot be made.
    pub(crate) fn explain(&self) -> Result<Explanation> {
        let candidates = self.call.candidates(&self.plan)?;
        Ok(Explanation { operands: self.operands.clone(), candidates })
    }

    /// Bytes and arithmetic.
    pub(crate) fn cost(&self) -> Cost {
        Cost::of(&self.spec, &self.operands)
    }

    /// Gives it memory and values.
    ///
    /// # Errors
    /// The backend has no room, or a transfer fails.
    pub(crate) fn load(&self) -> Result<Running<'_>> {
        Ok(Running { problem: self, loaded: self.call.load(&self.plan)? })
    }

    /// How many of the independent results, of how many, cost no more than `most`; `None` for all.
    fn keep(&self, most: f64) -> Option<usize> {
        let cost = self.cost();
        let first = self.operands.iter().find(|o| self.cut(o.name, o.dims.len()).is_some())?;
        let extent = first.dims[self.cut(first.name, first.dims.len())?];
        let work = cost.flops.max(cost.values as f64);
        let keep = ((extent as f64 * most / work.max(1.0)) as usize).max(1);
        (keep < extent).then_some(keep)
    }

    fn cut(&self, operand: &str, rank: usize) -> Option<usize> {
        self.spec.entry.contract.axis(operand, self.spec.entry.cut, rank)
    }

    /// The last `keep` results of a view of an operand.
    fn narrow(&self, operand: &str, layout: &Layout, keep: Option<usize>) -> Result<Layout> {
        match (self.cut(operand, layout.rank()), keep) {
            (Some(axis), Some(keep)) => layout.narrow(axis as isize, layout.dims()[axis] - keep, keep),
            _ => Ok(*layout),
        }
    }
}

impl Running<'_> {
    /// Hands out the call, which runs the op and waits, to be made any number of times.
    ///
    /// # Errors
    /// What the op reports, and those of `with`.
    pub(crate) fn prepared(&mut self, with: &mut dyn FnMut(&mut Prepared<'_>) -> Result<()>) -> Result<()> {
        self.loaded.prepared(with)
    }

    /// Runs it, once and first, and compares with the reference: all of it, or where that takes more
    /// than about `most` operations, the last of its independent results.
    ///
    /// # Errors
    /// What the op reports; a wrong result is in the answer.
    pub(crate) fn check(&mut self, most: f64) -> Result<Checked> {
        let problem = self.problem;
        let keep = problem.keep(most);
        let mut part = problem.plan.clone();
        for planned in &mut part.0 {
            planned.layout = problem.narrow(planned.name, &planned.layout, keep)?;
        }
        let mut reference = problem.reference.load(&part)?;
        self.loaded.prepared(&mut |run| run())?;
        reference.prepared(&mut |run| run())?;
        let mut found = Checked::default();
        for Operand { name, dtype, .. } in problem.operands.iter().filter(|o| o.role != Role::In) {
            let (layout, got) = self.loaded.read(name, &|layout| problem.narrow(name, layout, keep))?;
            let (_, want) = reference.read(name, &|layout| Ok(*layout))?;
            let tolerance = problem.call.tolerance(&part, name, *dtype)?;
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

/// The tensors of a call, described.
fn seen(on: &dyn Operands) -> Vec<Operand> {
    let described = |o: ops_core::Operand<'_>| {
        let dims = o.layout.dims().to_vec();
        Operand { name: o.name, role: o.role, dtype: o.dtype, dims }
    };
    on.iter().map(described).collect()
}

/// The values that an operand of a benchmark holds: nothing that makes NaN or runs out of range.
fn fill(spec: &Spec, operand: &str) -> Fill {
    let rows = |table| spec.shape(table).and_then(|dims| dims.first().copied()).unwrap_or(1);
    match (spec.entry.name, operand) {
        ("log" | "sqrt" | "recip", _) | ("div", "b") => Fill::Positive,
        (_, "cond") => Fill::Flag,
        (_, "ids") => Fill::Below(rows(spec.entry.first())),
        (_, "cos") => Fill::Cos,
        (_, "sin") => Fill::Sin,
        _ => Fill::Signed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::Typed;
    use super::super::{Types, entries, find};
    use super::*;
    use crate::backend::Candidate;
    use ops_core::combine::Wrapper;
    use ops_core::ops::{Unary, UnaryFn, unary};
    use ops_core::{Backend as _, Execute, Reason};
    use ops_cpu::Cpu;
    use std::collections::BTreeMap;

    fn small(op: &str, types: Types) -> Spec {
        let entry = find(op).unwrap();
        let given = BTreeMap::from([(entry.first().to_owned(), entry.small())]);
        Spec::new(entry, types, &given).unwrap()
    }

    #[test]
    fn every_op_is_right_in_whole_and_in_part() {
        let backend = host(Choice::Cpu);
        for entry in entries() {
            for types in entry.timed_types() {
                let problem = Problem::new(&backend, small(entry.name, types)).unwrap();
                // Most that may be spent, and whether that is enough for everything.
                let check = |most| problem.load().unwrap().check(most).unwrap();
                let (whole, part) = (check(f64::INFINITY), check(1.0));
                assert_eq!((&whole.mismatch, &part.mismatch), (&None, &None), "{}", entry.name);
                assert!(part.values > 0 && part.values <= whole.values, "{}", entry.name);
                if problem.keep(1.0).is_some() {
                    assert!(part.values < whole.values, "{} was not cut", entry.name);
                }
            }
        }
    }

    /// Negates, whatever it is asked for.
    #[derive(Clone)]
    struct Wrong(Cpu);
    impl Wrapper for Wrong {
        type Inner = Cpu;
        fn inner(&self) -> &Cpu {
            &self.0
        }
        fn around(&self, inner: Cpu) -> Self {
            Wrong(inner)
        }
    }
    impl Execute<Unary<f32>> for Wrong {
        fn support(&self, _: &Unary<f32>, _: &dyn Operands) -> Result<(), Reason> {
            Ok(())
        }
        fn execute(&self, call: ops_core::Call<'_, '_, Unary<f32>, ops_cpu::Host>) -> Result<()> {
            let (_, args) = call.into_parts();
            self.0.run(&Unary::of(UnaryFn::Neg), unary::Args { x: args.x.shorten(), y: args.y.reborrow() })
        }
    }
    impl Observing for Wrong {
        fn last_candidates(&self) -> Vec<Candidate> {
            Vec::new()
        }
    }

    #[test]
    fn a_wrong_result_is_found() {
        let spec = small("exp", find("exp").unwrap().timed_types().remove(0));
        let call = Typed { backend: Wrong(Cpu::new()), op: Unary::<f32>::of(UnaryFn::Exp) };
        let problem = Problem::of(Box::new(call), spec).unwrap();
        for most in [f64::INFINITY, 1.0] {
            let found = problem.load().unwrap().check(most).unwrap();
            let message = found.mismatch.expect("a mismatch");
            assert!(message.starts_with("y[") && message.contains("the reference has"), "{message}");
        }
    }
}
