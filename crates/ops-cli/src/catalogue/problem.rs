//! An op on tensors of given types and shapes: explained without memory, or loaded, checked and run.
use super::call::{Call, Loaded};
use super::synthetic::{Fill, Recipe, Rules};
use super::typed::typed;
use super::{Cost, Explanation, Kind, Operand, Spec};
use crate::backend::Observing;
use crate::exit::Failure;
use ops_core::ops::{BinaryFn, UnaryFn};
use ops_core::{Element, Layout, Operands, Result, Role, Tensor};
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
pub(super) struct Plan(Vec<(&'static str, Layout, Recipe)>);

impl Plan {
    fn get(&self, name: &str) -> Option<&(&'static str, Layout, Recipe)> {
        self.0.iter().find(|(n, ..)| *n == name)
    }
    fn push(&mut self, name: &'static str, layout: Layout, fill: Fill) {
        self.0.push((name, layout, Recipe::new(layout.extent().end, name, fill)));
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
        let (layout, recipe) = plan.get(name).map_or(scalar, |(_, layout, recipe)| (*layout, *recipe));
        Tensor::new(recipe, layout)
    }
}
impl<T: Element> Slot for Option<Tensor<Rules, T>> {
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
            plan.push(name, Layout::contiguous(dims)?, fill(spec, name));
        }
        let mut operands = Vec::new();
        let shapes = call.look(&plan, &mut |on| operands = seen(on))?;
        let outputs = operands.iter().filter(|o| o.role == Role::Out).map(|o| o.name);
        for (name, shape) in outputs.zip(shapes) {
            plan.push(name, Layout::of(shape), Fill::Signed);
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
        for (name, layout, _) in &mut part.0 {
            *layout = problem.narrow(name, layout, keep)?;
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
