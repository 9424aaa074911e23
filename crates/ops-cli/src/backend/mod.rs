//! The backends of this build, behind one face.
use crate::args::Choice;
use crate::catalogue::Spec;
use crate::ceilings::{Ceilings, HostCeilings};
use crate::exit::Failure;
use crate::problem::{Problem, call_on};
use gpu_ceilings::GpuCeilings;
use host::EitherHost;
use observed::Observed;
use ops_core::Backend;
use ops_rocm::MatrixCheck;
use ops_test::SuiteBackend;
use ops_test::golden::{CaseResult, Golden};
use ops_test::suite::{self, Filter, Report};
use std::time::Duration;

mod gpu_ceilings;
mod host;
mod observed;
mod rocm;
#[cfg(test)]
mod tests;

use rocm::Gpu;

/// What the commands ask of a backend. Everything typed is behind it.
pub(crate) trait Engine {
    /// The backend's name.
    fn name(&self) -> &'static str;
    /// Runs a golden case.
    fn replay(&self, case: &Golden) -> CaseResult;
    /// Runs the cases of the suite that pass the filter.
    fn suite(&self, filter: &Filter) -> Report;
    /// A problem on this backend.
    ///
    /// # Errors
    /// The shapes or types do not make one.
    fn problem(&self, spec: Spec) -> Result<Problem, Failure>;
    /// How fast this backend's machine can copy and multiply, each measured for about `budget`.
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings>;
    /// What the backend's matrix instructions make of known products; nothing where there are none.
    ///
    /// # Errors
    /// They cannot be run.
    fn matrix_units(&self) -> Result<Vec<MatrixCheck>, Failure>;
}

/// A backend whose machine's speed can be measured.
pub(crate) trait Machine: Backend {
    /// See [`Engine::ceilings`].
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings>;
    /// See [`Engine::matrix_units`].
    fn matrix_units(&self) -> ops_core::Result<Vec<MatrixCheck>> {
        Ok(Vec::new())
    }
}
impl Machine for EitherHost {
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings> {
        let threads = match self {
            EitherHost::Cpu => rayon::current_num_threads(),
            EitherHost::Reference => 1,
        };
        Box::new(HostCeilings::new(threads, budget))
    }
}

/// The backends in host memory, as the commands use them.
pub(crate) type HostBackend = Observed<EitherHost>;

/// One of them.
pub(crate) fn host(choice: Choice) -> HostBackend {
    Observed::new(EitherHost::of(choice))
}

impl<B: Machine> Engine for Observed<B>
where
    Observed<B>: SuiteBackend,
{
    fn name(&self) -> &'static str {
        Backend::name(self)
    }
    fn replay(&self, case: &Golden) -> CaseResult {
        case.replay(self)
    }
    fn suite(&self, filter: &Filter) -> Report {
        suite::run(self, filter)
    }
    fn problem(&self, spec: Spec) -> Result<Problem, Failure> {
        let (call, reference) = (call_on(self, &spec)?, call_on(&host(Choice::Reference), &spec)?);
        Problem::new(call, reference, spec)
    }
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings> {
        self.inside().ceilings(budget)
    }
    fn matrix_units(&self) -> Result<Vec<MatrixCheck>, Failure> {
        self.inside().matrix_units().map_err(Failure::Op)
    }
}

impl Machine for Gpu {
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings> {
        Box::new(GpuCeilings::new(self.clone(), budget))
    }
    fn matrix_units(&self) -> ops_core::Result<Vec<MatrixCheck>> {
        self.rocm()?.check_matrix_units()
    }
}

/// What a command wants of a backend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// To compute.
    Results,
    /// To say who would compute, on the GPU of this name or on the one at hand.
    Answers(Option<&'a str>),
}

/// Opens a backend: one arm for each kind of memory.
///
/// # Errors
/// The device cannot be opened, or there is no GPU of that name.
pub(crate) fn open(choice: Choice, wanted: Wanted<'_>) -> Result<Box<dyn Engine>, Failure> {
    match choice {
        Choice::Cpu | Choice::Reference => Ok(Box::new(host(choice))),
        Choice::Rocm => Ok(Box::new(Observed::new(Gpu::open(wanted)?))),
    }
}
