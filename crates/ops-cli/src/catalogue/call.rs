//! The typed core of a problem. There is one for each op, its element types and each kind of backend, so
//! it holds what needs the types and nothing else; [`Problem`](super::Problem) does the rest.
use super::problem::Plan;
use super::synthetic::Synthetic;
use crate::backend::{Candidate, Observing};
use ops_core::{
    Backend, DType, Error, Execute, Layout, NamedTensors, Op, Operands, Reason, Result, Shape, Tolerance,
    View,
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
    /// How far an output of this type may lie from the exact one.
    ///
    /// # Errors
    /// The plan has no valid layouts.
    fn tolerance(&self, plan: &Plan, output: &'static str, dtype: DType) -> Result<Tolerance>;
    /// Memory and values for every operand of the plan.
    ///
    /// # Errors
    /// The backend has no room, or a transfer fails.
    fn load(&self, plan: &Plan) -> Result<Box<dyn Loaded + '_>>;
}

/// An op with tensors.
pub(super) trait Loaded {
    /// Hands out the call, which runs the op and waits, and may be made any number of times.
    ///
    /// # Errors
    /// Those of `with`.
    fn prepared(&mut self, with: &mut dyn FnMut(&mut Prepared<'_>) -> Result<()>) -> Result<()>;
    /// The elements of an operand, narrowed, and where they lie.
    ///
    /// # Errors
    /// A transfer fails.
    fn read(&self, operand: &str, narrow: &Narrow<'_>) -> Result<(Layout, Vec<u8>)>;
}

/// A call with its arguments.
pub(super) type Prepared<'p> = dyn FnMut() -> Result<()> + 'p;
/// A part of a layout.
pub(super) type Narrow<'n> = dyn Fn(&Layout) -> Result<Layout> + 'n;

/// A [`Call`] of one op type.
pub(super) struct Typed<O, B> {
    pub(super) backend: B,
    pub(super) op: O,
}

impl<O: Op, B: Observing + Execute<O>> Call for Typed<O, B> {
    fn look(&self, plan: &Plan, see: &mut dyn FnMut(&dyn Operands)) -> Result<Vec<Shape>> {
        let mut tensors = plan.tensors()?;
        let args = tensors.args(&self.op)?;
        see(&args);
        Ok(self.op.infer(&O::shapes(&args))?.as_ref().to_vec())
    }
    fn candidates(&self, plan: &Plan) -> Result<Vec<Candidate>> {
        // The answer is among the candidates.
        let _ = self.backend.support(&self.op, &plan.tensors()?.args(&self.op)?);
        Ok(self.backend.last_candidates())
    }
    fn tolerance(&self, plan: &Plan, output: &'static str, dtype: DType) -> Result<Tolerance> {
        Ok(self.op.tolerance(output, dtype, &plan.tensors()?.args(&self.op)?))
    }
    fn load(&self, plan: &Plan) -> Result<Box<dyn Loaded + '_>> {
        let mut rules = plan.tensors()?;
        let args = rules.args(&self.op)?;
        let tensors = NamedTensors::mirror(&self.op, &args, &Synthetic, &self.backend)?;
        Ok(Box::new(InMemory { call: self, tensors }))
    }
}

struct InMemory<'t, O, B: Backend> {
    call: &'t Typed<O, B>,
    tensors: NamedTensors<B::Space>,
}

impl<O: Op, B: Execute<O>> Loaded for InMemory<'_, O, B> {
    fn prepared(&mut self, with: &mut dyn FnMut(&mut Prepared<'_>) -> Result<()>) -> Result<()> {
        let Typed { backend, op } = self.call;
        // Made once: a benchmark does not time the search for names.
        let mut args = self.tensors.args(op)?;
        with(&mut || {
            let again = O::map(&mut args, |_, lent| Some(lent));
            backend.run(op, again.ok_or_else(|| lost(op.name(), backend.name()))?)?;
            backend.synchronize()
        })
    }
    fn read(&self, operand: &str, narrow: &Narrow<'_>) -> Result<(Layout, Vec<u8>)> {
        read(&self.call.backend, &self.tensors, operand, narrow)
    }
}

/// What cannot be: the views of a call do not make the same call again.
#[cold]
fn lost(op: &'static str, backend: &'static str) -> Error {
    Error::Unsupported { op, backend, reason: Reason::Because("its arguments are lost".to_owned()) }
}

fn read<B: Backend>(
    backend: &B,
    tensors: &NamedTensors<B::Space>,
    operand: &str,
    narrow: &Narrow<'_>,
) -> Result<(Layout, Vec<u8>)> {
    let none = || Error::param("problem", "operand", operand, "an operand that the problem has");
    let tensor = tensors.get(operand).ok_or_else(none)?;
    let layout = narrow(tensor.layout())?;
    Ok((layout, tensor.as_ref().with_layout(layout)?.to_vec(backend)?))
}
