//! The typed core of a problem. There is one for each op, its element types and each kind of backend, so
//! it holds what needs the types and nothing else; [`Problem`](super::Problem) does the rest.
use super::problem::{Checked, Plan};
use super::synthetic::{Rules, Synthetic};
use crate::backend::{Candidate, Choice, HostBackend, Observing, host};
use ops_core::{
    Backend, DType, Element, Execute, Layout, Op, Operands, OutputVisitor, Result, Shape, Tensor, TensorMut,
    Tolerance, View,
};

/// An op on a backend, without tensors.
pub(super) trait Call {
    /// Shows the operands as the backend sees them, and gives the shapes of the outputs.
    ///
    /// # Errors
    /// The inputs in the plan break the op's shape rule.
    fn look(&self, plan: &Plan, see: &mut dyn FnMut(&dyn Operands)) -> Result<Vec<Shape>>;
    /// Who would run it.
    ///
    /// # Errors
    /// The plan has no valid layouts.
    fn candidates(&self, plan: &Plan) -> Result<Vec<Candidate>>;
    /// Memory and values for every operand of the plan.
    ///
    /// # Errors
    /// The backend has no room, or a transfer fails.
    fn load(&self, plan: &Plan) -> Result<Box<dyn Loaded + '_>>;
}

/// An op with tensors.
pub(super) trait Loaded {
    /// Runs it and waits.
    ///
    /// # Errors
    /// What the op reports.
    fn run(&mut self) -> Result<()>;
    /// Compares the outputs, narrowed, with what the reference makes of `part`.
    ///
    /// # Errors
    /// What the reference reports; a wrong result is in the answer.
    fn compare(&mut self, part: &Plan, narrow: &dyn Fn(&str, &Layout) -> Result<Layout>) -> Result<Checked>;
}

/// A [`Call`] of one op type.
pub(super) struct Typed<'b, O: Op, B> {
    pub(super) backend: &'b B,
    pub(super) op: O,
    pub(super) make: fn(&Plan) -> Result<O::Owned<Rules>>,
}

impl<O: Op, B: Observing + Execute<O>> Call for Typed<'_, O, B>
where
    HostBackend: Execute<O>,
{
    fn look(&self, plan: &Plan, see: &mut dyn FnMut(&dyn Operands)) -> Result<Vec<Shape>> {
        let mut owned = (self.make)(plan)?;
        let args = O::lend(&mut owned);
        see(&args);
        Ok(self.op.infer(&O::shapes(&args))?.as_ref().to_vec())
    }
    fn candidates(&self, plan: &Plan) -> Result<Vec<Candidate>> {
        // The answer is among the candidates.
        let _ = self.backend.support(&self.op, &O::lend(&mut (self.make)(plan)?));
        Ok(self.backend.last_candidates())
    }
    fn load(&self, plan: &Plan) -> Result<Box<dyn Loaded + '_>> {
        let mut rules = (self.make)(plan)?;
        let owned = O::mirror(&O::lend(&mut rules), &Synthetic, self.backend)?;
        Ok(Box::new(InMemory { call: self, owned }))
    }
}

struct InMemory<'t, 'b, O: Op, B: Backend> {
    call: &'t Typed<'b, O, B>,
    owned: O::Owned<B::Space>,
}

impl<O: Op, B: Execute<O>> Loaded for InMemory<'_, '_, O, B>
where
    HostBackend: Execute<O>,
{
    fn run(&mut self) -> Result<()> {
        self.call.backend.run(&self.call.op, O::lend(&mut self.owned))?;
        self.call.backend.synchronize()
    }
    fn compare(&mut self, part: &Plan, narrow: &dyn Fn(&str, &Layout) -> Result<Layout>) -> Result<Checked> {
        let Typed { backend, op, make } = self.call;
        let reference = host(Choice::Reference);
        let mut want = O::mirror(&O::lend(&mut make(part)?), &Synthetic, &reference)?;
        reference.run(op, O::lend(&mut want))?;
        let seen = &mut make(part)?;
        let on = O::lend(seen);
        let tolerance = &|name, dtype| op.tolerance(name, dtype, &on);
        let mut compare = Compare { backend: *backend, tolerance, narrow, found: Checked::default() };
        O::visit_outputs(&mut O::lend(&mut self.owned), &want, &mut compare)?;
        Ok(compare.found)
    }
}

/// Compares outputs; knows their element types but not the op's.
struct Compare<'c, B> {
    backend: &'c B,
    tolerance: &'c dyn Fn(&'static str, DType) -> Tolerance,
    narrow: &'c dyn Fn(&str, &Layout) -> Result<Layout>,
    found: Checked,
}

impl<B: Backend> OutputVisitor<B::Space, <HostBackend as Backend>::Space> for Compare<'_, B> {
    #[inline(never)]
    fn output<T: Element>(
        &mut self,
        name: &'static str,
        output: TensorMut<'_, B::Space, T>,
        want: &Tensor<<HostBackend as Backend>::Space, T>,
    ) -> Result<()> {
        let layout = (self.narrow)(name, output.layout())?;
        let got = output.as_ref().with_layout(layout)?.to_vec(self.backend)?;
        let want = want.as_ref().to_vec(&host(Choice::Reference))?;
        let verdict = (self.tolerance)(name, T::DTYPE).judge_pair(&got, &want);
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
