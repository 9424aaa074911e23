//! The two backends in host memory.
use super::observed::Candidates;
use crate::args::Choice;
use crate::problem::Candidate;
use ops_core::{Backend, Determinism, Execute, Op, Operands, Result};
use ops_cpu::{Cpu, EitherHost};

/// The reference, which computes each row by itself, if it was chosen; else a [`Cpu`] that promises this much about bits.
///
/// # Errors
/// Those of [`CpuBuilder::build`](ops_cpu::CpuBuilder::build).
pub(super) fn either_host(choice: Choice, determinism: Determinism) -> Result<EitherHost> {
    match choice {
        Choice::Reference => Ok(EitherHost::Reference),
        _ => Cpu::builder().determinism(determinism).build().map(EitherHost::Cpu),
    }
}

impl<O: Op> Candidates<O> for EitherHost
where
    EitherHost: Execute<O>,
{
    fn candidates(&self, op: &O, on: &dyn Operands) -> Vec<Candidate> {
        let reason = match self {
            EitherHost::Cpu(_) => "the only candidate: a kernel for every layout",
            EitherHost::Reference => "the only candidate: plain loops in f64",
        };
        vec![Candidate::only(self.name(), self.support(op, on), self.determinism(op, on), reason)]
    }
}
