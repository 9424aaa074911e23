//! An op on tensors of given types and shapes: explained without memory, or loaded, checked and run.
use super::call::{Call, Loaded};
use super::synthetic::{Fill, Recipe, Rules};
use super::typed::typed;
use super::{Cost, Explanation, Kind, Operand, Spec};
use crate::backend::Observing;
use crate::exit::Failure;
use ops_core::ops::{BinaryFn, UnaryFn};
use ops_core::{AnyTensor, DType, Element, Error, Layout, Operands, Result, Role, Tensor};
use ops_test::SuiteBackend;

/// A problem on a backend.
pub(crate) struct Problem<'b> {
    call: Box<dyn Call + 'b>,
    spec: Spec,
    plan: Plan,
    operands: Vec<Operand>,
}

/// A problem with memory.
pub(crate) struct Running<'p> {
    problem: &'p Problem<'p>,
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
    fn get(&self, name: &str) -> Option<&Planned> {
        self.0.iter().find(|planned| planned.name == name)
    }
    fn push(&mut self, name: &'static str, dtype: DType, layout: Layout, fill: Fill) {
        self.0.push(Planned { name, dtype, layout, recipe: Recipe::new(layout.extent().end, name, fill) });
    }
    /// The operand of this name, as the op's `Owned` wants it.
    pub(super) fn slot<S: Slot>(&self, name: &str) -> Result<S> {
        S::of(self, name)
    }
}

/// What stands in an op's place for an operand.
pub(super) trait Slot: Sized {
    fn of(plan: &Plan, name: &str) -> Result<Self>;
}
impl<T: Element> Slot for Tensor<Rules, T> {
    #[inline(never)]
    fn of(plan: &Plan, name: &str) -> Result<Self> {
        let scalar = (Layout::contiguous(&[])?, Recipe::new(1, name, Fill::Signed));
        // Outputs are not in the plan until the op has told their shapes.
        let (layout, recipe) = plan.get(name).map_or(scalar, |planned| (planned.layout, planned.recipe));
        Tensor::new(recipe, layout)
    }
}
impl Slot for AnyTensor<Rules> {
    fn of(plan: &Plan, name: &str) -> Result<Self> {
        let none = || Error::param("plan", "operand", name, "an operand that the plan has");
        let Planned { dtype, layout, recipe, .. } = plan.get(name).ok_or_else(none)?;
        AnyTensor::new(recipe.as_bytes(*dtype), *dtype, *layout)
    }
}
impl<S: Slot> Slot for Option<S> {
    fn of(plan: &Plan, name: &str) -> Result<Self> {
        plan.get(name).map(|_| Slot::of(plan, name)).transpose()
    }
}

impl<'b> Problem<'b> {
    /// Finds the typed call and applies the op's shape rule.
    ///
    /// # Errors
    /// The types are not offered together, or the shapes break the rule.
    pub(crate) fn new<B: Observing + SuiteBackend>(backend: &'b B, spec: Spec) -> Result<Self, Failure> {
        let call = typed(backend, &spec)?;
        match Self::plan(&spec, &*call) {
            Ok((plan, operands)) => Ok(Problem { call, spec, plan, operands }),
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
            plan.push(name, dtype, Layout::contiguous(dims)?, fill(spec, name));
        }
        let mut operands = Vec::new();
        let shapes = call.look(&plan, &mut |on| operands = seen(on))?;
        let outputs = operands.iter().filter(|o| o.role == Role::Out).map(|o| o.name);
        for (name, shape) in outputs.zip(shapes) {
            plan.push(name, spec.types.get(spec.entry, name), Layout::of(shape), Fill::Signed);
        }
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
    /// Runs it and waits.
    ///
    /// # Errors
    /// What the op reports.
    pub(crate) fn run(&mut self) -> Result<()> {
        self.loaded.run()
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
        self.loaded.run()?;
        self.loaded.compare(&part, &|name, layout| problem.narrow(name, layout, keep))
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
    match (spec.entry.kind, operand) {
        (Kind::Unary(UnaryFn::Log | UnaryFn::Sqrt | UnaryFn::Recip), _) => Fill::Positive,
        (Kind::Binary(BinaryFn::Div), "b") => Fill::Positive,
        (_, "cond") => Fill::Flag,
        (Kind::QEmbedding, "ids") => Fill::Below(rows("table")),
        (_, "ids") => Fill::Below(rows("x")),
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
    use crate::backend::{Candidate, Choice, host};
    use ops_core::combine::Wrapper;
    use ops_core::ops::{Unary, UnaryArgs, UnaryOwned};
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
            self.0.run(&Unary::of(UnaryFn::Neg), UnaryArgs { x: args.x.shorten(), y: args.y.reborrow() })
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
        let backend = Wrong(Cpu::new());
        let make = |plan: &Plan| Ok(UnaryOwned { x: plan.slot("x")?, y: plan.slot("y")? });
        let call = Box::new(Typed { backend: &backend, op: Unary::<f32>::of(UnaryFn::Exp), make });
        let (plan, operands) = Problem::plan(&spec, &*call).unwrap();
        let problem = Problem { call, spec, plan, operands };
        for most in [f64::INFINITY, 1.0] {
            let found = problem.load().unwrap().check(most).unwrap();
            let message = found.mismatch.expect("a mismatch");
            assert!(message.starts_with("y[") && message.contains("the reference has"), "{message}");
        }
    }
}
