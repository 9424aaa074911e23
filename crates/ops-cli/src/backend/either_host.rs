//! The candidates of the backends in host memory.
use super::observed::Candidates;
use crate::problem::Candidate;
use ops_core::{Backend, Execute, Op, Operands};
use ops_cpu::EitherHost;

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
