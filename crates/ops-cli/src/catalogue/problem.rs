//! A typed call behind an untyped face: explained without memory, or loaded, checked and run.
use super::synthetic::{Fill, Recipe, Rules, Synthetic};
use super::{Cost, Explanation, Kind, Operand, Spec};
use crate::backend::Observing;
use crate::exit::Failure;
use ops_core::ops::{BinaryFn, UnaryFn};
use ops_core::{
    Backend, Element, Execute, Layout, Op, Operands, OutputVisitor, Result, Role, Space, Tensor, TensorMut,
    View,
};
use ops_cpu::Reference;

/// A problem on a backend.
pub(crate) trait Problem {
    /// Its tensors, and who would run it. Allocates nothing.
    fn explain(&mut self) -> Explanation;
    /// Bytes and arithmetic.
    fn cost(&self) -> Cost;
    /// Gives it memory and values.
    ///
    /// # Errors
    /// The backend has no room, or a transfer fails.
    fn load(&mut self) -> Result<Box<dyn Loaded + '_>>;
}

/// A problem with memory.
pub(crate) trait Loaded {
    /// Runs it and waits.
    ///
    /// # Errors
    /// What the op reports.
    fn run(&mut self) -> Result<()>;
    /// Runs it, once and first, and compares with the reference: all of it, or where that takes more
    /// than about `most` operations, the last of its independent results.
    ///
    /// # Errors
    /// What the op reports; a wrong result is in the answer.
    fn check(&mut self, most: f64) -> Result<Checked>;
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

/// A [`Problem`] of one op type.
pub(super) struct Typed<'b, O: Op, B> {
    backend: &'b B,
    spec: Spec,
    op: O,
    make: fn(&Plan) -> Result<O::Owned<Rules>>,
    plan: Plan,
    owned: O::Owned<Rules>,
    operands: Vec<Operand>,
}

impl<'b, O: Op, B> Typed<'b, O, B> {
    /// Applies the op's shape rule.
    pub(super) fn new(
        backend: &'b B,
        spec: Spec,
        op: O,
        make: fn(&Plan) -> Result<O::Owned<Rules>>,
    ) -> Result<Self, Failure> {
        let refuse = |e: ops_core::Error| {
            Failure::Usage(format!(
                "{e}; the operands of {} are {}",
                spec.entry.name,
                spec.entry.contract.text()
            ))
        };
        let mut plan = Plan::default();
        for (name, dims) in &spec.shapes {
            plan.push(name, Layout::contiguous(dims).map_err(refuse)?, fill(&spec, name));
        }
        let mut owned = make(&plan).map_err(refuse)?;
        let args = O::lend(&mut owned);
        let shapes = op.infer(&O::shapes(&args)).map_err(refuse)?;
        let outputs: Vec<_> =
            (&args as &dyn Operands).iter().filter(|o| o.role == Role::Out).map(|o| o.name).collect();
        for (name, shape) in outputs.into_iter().zip(shapes.as_ref()) {
            plan.push(name, Layout::of(*shape), Fill::Signed);
        }
        let mut owned = make(&plan).map_err(refuse)?;
        let operands = seen(&O::lend(&mut owned));
        Ok(Typed { backend, spec, op, make, plan, owned, operands })
    }

    /// How many of the independent results, of how many, cost no more than `most`; `None` for all.
    fn keep(&self, most: f64) -> Option<usize> {
        let cost = Cost::of(&self.spec, &self.operands);
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

impl<O: Op, B: Observing + Execute<O>> Problem for Typed<'_, O, B>
where
    Reference: Execute<O>,
{
    fn explain(&mut self) -> Explanation {
        // The answer is among the candidates.
        let _ = self.backend.support(&self.op, &O::lend(&mut self.owned));
        Explanation { operands: self.operands.clone(), candidates: self.backend.last_candidates() }
    }
    fn cost(&self) -> Cost {
        Cost::of(&self.spec, &self.operands)
    }
    fn load(&mut self) -> Result<Box<dyn Loaded + '_>> {
        let owned = O::mirror(&O::lend(&mut self.owned), &Synthetic, self.backend)?;
        Ok(Box::new(InMemory { problem: self, owned }))
    }
}

struct InMemory<'t, 'b, O: Op, B: Backend> {
    problem: &'t Typed<'b, O, B>,
    owned: O::Owned<B::Space>,
}

impl<O: Op, B: Execute<O>> Loaded for InMemory<'_, '_, O, B>
where
    Reference: Execute<O>,
{
    fn run(&mut self) -> Result<()> {
        let Typed { backend, op, .. } = self.problem;
        backend.run(op, O::lend(&mut self.owned))?;
        backend.synchronize()
    }

    fn check(&mut self, most: f64) -> Result<Checked> {
        let problem = self.problem;
        let keep = problem.keep(most);
        let mut part = problem.plan.clone();
        for (name, layout, _) in &mut part.0 {
            *layout = problem.narrow(name, layout, keep)?;
        }
        let mut part = (problem.make)(&part)?;
        let mut reference = O::mirror(&O::lend(&mut part), &Synthetic, &Reference::new())?;
        Reference::new().run(&problem.op, O::lend(&mut reference))?;

        self.run()?;
        let mut compare = Compare { problem, keep, found: Checked::default() };
        O::visit_outputs(&mut O::lend(&mut self.owned), &reference, &mut compare)?;
        Ok(compare.found)
    }
}

/// Compares outputs with what the reference made of the same part.
struct Compare<'c, 'b, O: Op, B> {
    problem: &'c Typed<'b, O, B>,
    keep: Option<usize>,
    found: Checked,
}

impl<O: Op, B: Backend, Q: Space> OutputVisitor<B::Space, Q> for Compare<'_, '_, O, B>
where
    Reference: Backend<Space = Q>,
{
    fn output<T: Element>(
        &mut self,
        name: &'static str,
        output: TensorMut<'_, B::Space, T>,
        want: &Tensor<Q, T>,
    ) -> Result<()> {
        let layout = self.problem.narrow(name, output.layout(), self.keep)?;
        let got = output.as_ref().with_layout(layout)?.to_vec(self.problem.backend)?;
        let want = want.as_ref().to_vec(&Reference::new())?;
        let verdict = self.problem.op.tolerance(name, T::DTYPE).judge_pair(&got, &want);
        self.found.values += got.len();
        if let (Some(at), None) = (verdict.bad, &self.found.mismatch) {
            let index = layout.index_of(at);
            self.found.mismatch = Some(format!(
                "{name}{index:?} is {:?}, the reference has {:?} (nmse {:.3e}, limit {:.3e})",
                got[at], want[at], verdict.nmse, verdict.limit
            ));
        }
        Ok(())
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
