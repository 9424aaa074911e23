//! From a problem to the op of it: the registry's, with the options that models use.
use super::Spec;
use super::call::{Call, Typed};
use crate::backend::Observing;
use crate::exit::Failure;
use ops_core::ops::registry::{self, Options, Refused, Visit, Window};
use ops_core::{DType, Execute, Op, Wide};
use ops_test::SuiteBackend;

/// The call of a problem.
///
/// # Errors
/// The types are not offered together.
pub(super) fn typed<B: Observing + SuiteBackend>(backend: &B, spec: &Spec) -> Result<Box<dyn Call>, Failure> {
    registry::by_name(spec.entry.name, spec.types.runs_in, &Usual(spec), Make(backend.clone()))
}

/// Makes a call of an op on this backend.
struct Make<B>(B);

impl<B: Observing + SuiteBackend> Visit<B> for Make<B> {
    type Answer = Box<dyn Call>;
    fn visit<O: Op>(self, op: O) -> Box<dyn Call>
    where
        B: Execute<O>,
    {
        Box::new(Typed { backend: self.0, op })
    }
}

/// The options of a problem: what models use.
struct Usual<'s>(&'s Spec);

impl Options for Usual<'_> {
    type Error = Failure;

    fn operand(&self, name: &'static str) -> Result<DType, Failure> {
        Ok(self.0.types.get(self.0.entry, name))
    }
    fn number(&self, name: &'static str) -> Result<Option<f64>, Failure> {
        Ok(match (self.0.entry.name, name) {
            // Added to variances.
            (_, "eps") => Some(1e-5),
            // Its own inverse: values stay in range however often it runs.
            ("affine_inplace", "mul") => Some(-1.0),
            (_, "mul") => Some(2.0),
            (_, "add") => Some(1.0),
            _ => None,
        })
    }
    fn value(&self, _: &'static str) -> Result<Option<Wide>, Failure> {
        Ok(Some(Wide::Int(1)))
    }
    fn count(&self, name: &'static str) -> Result<Option<usize>, Failure> {
        if name != "num_groups" {
            return Ok(None);
        }
        // 32 groups, as most models have; as many as can be where there are other channels.
        let channels = self.0.shape("x").and_then(|dims| dims.get(1).copied()).unwrap_or(1);
        Ok((1..=32).rev().find(|groups| channels.is_multiple_of(*groups)))
    }
    fn axis(&self, _: &'static str) -> Result<Option<isize>, Failure> {
        Ok(None)
    }
    fn flag(&self, name: &'static str) -> Result<Option<bool>, Failure> {
        Ok(Some(name == "causal" && self.0.causal))
    }
    fn window(&self, _: &'static str) -> Result<Option<Window>, Failure> {
        Ok(None)
    }
    fn dtype(&self, _: &'static str) -> Result<Option<DType>, Failure> {
        Ok(None)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Usage(refused.to_string())
    }
}
