//! Fused ops, run as the ops they consist of.
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::{Call, Determinism, Op, Operands, Parts, Reason};

/// Runs the parts of an op, each with its own provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByParts;

impl<O: Op + Parts<Rocm>> Provider<O> for ByParts {
    fn id(&self) -> ProviderId {
        ProviderId::PARTS
    }

    /// The parts are chosen by the same policy, and therefore reach its level.
    fn determinism(&self, target: &Target, _: &O, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    /// The parts' providers depend on the policy, so this is left to [`probe`](Provider::probe).
    fn applicable(&self, _: &Target, _: &O, _: &dyn Operands) -> Result<(), Reason> {
        Ok(())
    }

    fn probe(&self, rocm: &Rocm, op: &O, on: &dyn Operands) -> Result<Option<String>, Reason> {
        op.parts_support(rocm, on).map(|()| None)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(rocm, args)
    }
}
