//! An op bound to a backend, as an object. It wraps [`ErasedCall`], so nothing here is generic over ops.
use super::options::ModelOptions;
use super::plan::Plan;
use super::{Candidate, Explain};
use crate::catalogue::Spec;
use crate::exit::Failure;
use ops_core::{Backend, Error, Layout, NamedTensors, Result};
use ops_test::SuiteBackend;
use ops_test::erased::{ErasedCall, ErasedOp, Outline, Prepared, erased};

/// An op on a backend, without tensors.
pub(crate) trait Call {
    /// The op without its type.
    fn op(&self) -> &dyn ErasedOp;
    /// The providers that could run it, in the order in which they are asked.
    fn candidates(&self, outline: &Outline) -> Vec<Candidate>;
    /// Allocates and fills every operand of the plan.
    ///
    /// # Errors
    /// The backend is out of memory, or a transfer fails.
    fn load(&self, plan: &Plan) -> Result<Box<dyn Loaded + '_>>;
}

/// An op with tensors.
pub(crate) trait Loaded {
    /// Passes the call to `with`, which may make it any number of times.
    ///
    /// # Errors
    /// Errors of `with`.
    fn prepare(&mut self, with: &mut dyn FnMut(&mut Prepared<'_>) -> Result<()>) -> Result<()>;
    /// The elements of an operand under the layout that `narrow` derives from its own, and that layout.
    ///
    /// # Errors
    /// A transfer fails.
    fn read(&self, operand: &str, narrow: &Narrow<'_>) -> Result<(Layout, Vec<u8>)>;
}

/// Selects a part of a layout.
pub(super) type Narrow<'n> = dyn Fn(&Layout) -> Result<Layout> + 'n;

/// The call that a spec describes, on this backend.
///
/// # Errors
/// The op does not support this combination of element types.
pub(crate) fn call_on<B: Explain + SuiteBackend>(backend: &B, spec: &Spec) -> Result<Box<dyn Call>, Failure> {
    let call = erased::<B, _>(spec.entry.name, spec.types.runs_in, &ModelOptions(spec))?;
    Ok(bind(backend.clone(), call))
}

/// A call bound to the backend that runs it.
pub(crate) fn bind<B: Explain>(backend: B, call: Box<dyn ErasedCall<B>>) -> Box<dyn Call> {
    Box::new(Bound { backend, call })
}

struct Bound<B: Backend> {
    backend: B,
    call: Box<dyn ErasedCall<B>>,
}

impl<B: Explain> Call for Bound<B> {
    fn op(&self) -> &dyn ErasedOp {
        &*self.call
    }
    fn candidates(&self, outline: &Outline) -> Vec<Candidate> {
        // The candidates include the answer.
        let _ = self.call.support(&self.backend, outline);
        self.backend.last_candidates()
    }
    fn load(&self, plan: &Plan) -> Result<Box<dyn Loaded + '_>> {
        let tensors = plan.tensors(&self.backend, self.call.slots())?;
        Ok(Box::new(InMemory { bound: self, tensors }))
    }
}

struct InMemory<'c, B: Backend> {
    bound: &'c Bound<B>,
    tensors: NamedTensors<B::Space>,
}

impl<B: Backend> Loaded for InMemory<'_, B> {
    fn prepare(&mut self, with: &mut dyn FnMut(&mut Prepared<'_>) -> Result<()>) -> Result<()> {
        self.bound.call.prepare(&self.bound.backend, &mut self.tensors, with)
    }
    fn read(&self, operand: &str, narrow: &Narrow<'_>) -> Result<(Layout, Vec<u8>)> {
        let none = || Error::param("problem", "operand", operand, "an operand of the problem");
        let tensor = self.tensors.get(operand).ok_or_else(none)?;
        let layout = narrow(tensor.layout())?;
        Ok((layout, tensor.as_ref().with_layout(layout)?.to_vec(&self.bound.backend)?))
    }
}
