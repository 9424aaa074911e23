//! The backends of this build, behind one face.
use crate::bench::{Ceilings, HostCeilings};
use crate::catalogue::{self, Problem, Spec};
use crate::exit::Failure;
use clap::ValueEnum;
use ops_core::Backend;
use ops_cpu::{Cpu, Reference};
use ops_test::SuiteBackend;
use ops_test::golden::{CaseResult, Golden};
use std::time::Duration;

mod candidates;

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
    /// A problem on this backend.
    ///
    /// # Errors
    /// The shapes or types do not make one.
    fn problem(&self, spec: Spec) -> Result<Box<dyn Problem + '_>, Failure>;
    /// How fast this backend's machine can copy and multiply, each measured for about `budget`.
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings>;
}

/// A backend whose machine's speed can be measured.
pub(crate) trait Machine: Backend {
    /// See [`Engine::ceilings`].
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings>;
}
impl Machine for Cpu {
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings> {
        Box::new(HostCeilings::new(rayon::current_num_threads(), budget))
    }
}
impl Machine for Reference {
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings> {
        Box::new(HostCeilings::new(1, budget))
    }
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
    fn problem(&self, spec: Spec) -> Result<Box<dyn Problem + '_>, Failure> {
        catalogue::build(self, spec)
    }
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings> {
        self.inside().ceilings(budget)
    }
}

/// Why there is no ROCm here, and what to do.
pub(crate) const NO_ROCM: &str = "this build has no ROCm backend; use --backend cpu or --backend reference, \
                                  or a build of `ops` that includes ops-rocm";

/// Opens a backend: one arm for each.
///
/// # Errors
/// This build lacks it.
pub(crate) fn open(choice: Choice) -> Result<Box<dyn Engine>, Failure> {
    match choice {
        Choice::Cpu => Ok(Box::new(Observed::new(Cpu::new()))),
        Choice::Reference => Ok(Box::new(Observed::new(Reference::new()))),
        Choice::Rocm => Err(Failure::Usage(NO_ROCM.into())),
    }
}
