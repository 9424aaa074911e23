//! The backends of this build, behind one face.
use crate::bench::{Ceilings, HostCeilings};
use crate::catalogue::{Problem, Spec};
use crate::exit::Failure;
use clap::ValueEnum;
use host::EitherHost;
use ops_core::Backend;
use ops_test::SuiteBackend;
use ops_test::golden::{CaseResult, Golden};
use ops_test::suite::{self, Filter, Report};
use std::time::Duration;

mod candidates;
mod host;

pub(crate) use candidates::{Candidate, Observed, Observing};

/// The backends that can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// Threaded and vectorised, on this machine's CPU
    #[default]
    Cpu,
    /// The oracle: plain loops in f64
    Reference,
    /// AMD GPUs
    Rocm,
}

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
    fn problem(&self, spec: Spec) -> Result<Problem<'_>, Failure>;
    /// How fast this backend's machine can copy and multiply, each measured for about `budget`.
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings>;
}

/// A backend whose machine's speed can be measured.
pub(crate) trait Machine: Backend {
    /// See [`Engine::ceilings`].
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings>;
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
    fn problem(&self, spec: Spec) -> Result<Problem<'_>, Failure> {
        Problem::new(self, spec)
    }
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings> {
        self.inside().ceilings(budget)
    }
}

/// Why there is no ROCm here, and what to do.
pub(crate) const NO_ROCM: &str = "this build has no ROCm backend; use --backend cpu or --backend reference, \
                                  or a build of `ops` that includes ops-rocm";

/// Opens a backend: one arm for each kind of memory.
///
/// # Errors
/// This build lacks it.
pub(crate) fn open(choice: Choice) -> Result<Box<dyn Engine>, Failure> {
    match choice {
        Choice::Cpu | Choice::Reference => Ok(Box::new(host(choice))),
        Choice::Rocm => Err(Failure::Usage(NO_ROCM.into())),
    }
}
