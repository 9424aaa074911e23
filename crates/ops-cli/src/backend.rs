//! The backends of this build, as objects of one trait.
use crate::args::Choice;
use crate::catalogue::Spec;
use crate::ceilings::{Ceilings, HostCeilings};
use crate::exit::Failure;
use crate::problem::{Problem, Recording, call_on};
use gpu_ceilings::GpuCeilings;
use observed::Observed;
use ops_core::{Backend, Determinism};
use ops_cpu::{Cpu, EitherHost};
use ops_rocm::MatrixCheck;
use ops_test::golden::{CaseResult, Golden};
use ops_test::suite::{self, Filter, Report, Rows};
use ops_test::{CallError, SuiteBackend};
use std::time::Duration;

mod either_host;
mod gpu_ceilings;
mod observed;
mod rocm;
#[cfg(test)]
mod tests;

use rocm::Gpu;

/// What commands need from a backend, without its type.
pub(crate) trait Engine {
    /// The backend's name.
    fn name(&self) -> &'static str;
    /// Runs a golden case.
    fn replay(&self, case: &Golden) -> CaseResult;
    /// Runs the cases of the suite that the filter selects. `before` is called with each case's name before
    /// it runs.
    fn suite(&self, filter: &Filter, before: &mut dyn FnMut(&str)) -> Report;
    /// Runs the small ones of these cases, and each again with fewer rows, which must have the same bits.
    /// `before` is as for [`suite`](Engine::suite).
    fn rows(&self, filter: &Filter, before: &mut dyn FnMut(&str)) -> Rows;
    /// A problem on this backend.
    ///
    /// # Errors
    /// The op does not support these types, or the shapes break its rule.
    fn problem(&self, spec: Spec) -> Result<Problem, Failure>;
    /// A recorded call as a problem on this backend.
    ///
    /// # Errors
    /// This build does not know the call, or it breaks the op's rule.
    fn recorded(&self, call: &Recording<'_>) -> Result<Problem, CallError>;
    /// The ceilings of this backend's machine, each measured for about `budget`.
    fn ceilings(&self, budget: Duration) -> Box<dyn Ceilings>;
    /// Runs each of the device's matrix instructions on a known product. Empty if it has none.
    ///
    /// # Errors
    /// A check cannot be run.
    fn matrix_units(&self) -> Result<Vec<MatrixCheck>, Failure>;
}

/// The machine that a backend computes on.
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
        let cpu = match self {
            EitherHost::Cpu(cpu) => Some(cpu.clone()),
            EitherHost::Reference => None,
        };
        Box::new(HostCeilings::new(cpu, budget))
    }
}

/// A backend in host memory, as the commands use it.
pub(crate) type HostBackend = Observed<EitherHost>;

/// The reference, which computes each row independently, or, for any other choice, the CPU backend at this
/// level of determinism. Neither packs weights, and with one row every fused op is one call, so calls
/// of a decode step are those that a program makes.
///
/// # Errors
/// Those of [`CpuBuilder::build`](ops_cpu::CpuBuilder::build).
pub(crate) fn host(choice: Choice, determinism: Determinism) -> ops_core::Result<HostBackend> {
    let host = match choice {
        Choice::Reference => EitherHost::Reference,
        _ => EitherHost::Cpu(Cpu::builder().determinism(determinism).build()?),
    };
    Ok(Observed::new(host))
}

/// The oracle.
pub(crate) fn reference() -> HostBackend {
    Observed::new(EitherHost::Reference)
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
    fn suite(&self, filter: &Filter, before: &mut dyn FnMut(&str)) -> Report {
        suite::run_observed(self, filter, before)
    }
    fn rows(&self, filter: &Filter, before: &mut dyn FnMut(&str)) -> Rows {
        // This keeps the many calls with fewer rows as fast as the suite.
        const LARGEST: usize = 1 << 11;
        suite::run_rows(self, &reference(), filter, LARGEST, before)
    }
    fn problem(&self, spec: Spec) -> Result<Problem, Failure> {
        let (call, reference) = (call_on(self, &spec)?, call_on(&reference(), &spec)?);
        Problem::new(call, reference, spec)
    }
    fn recorded(&self, call: &Recording<'_>) -> Result<Problem, CallError> {
        Problem::recorded(call.on(self)?, call.on(&reference())?, call)
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

/// A GPU with its own policy.
pub(crate) fn with_policy(rocm: ops_rocm::Rocm) -> Box<dyn Engine> {
    Box::new(Observed::new(Gpu::Present(rocm)))
}

/// Why a command opens a backend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose<'a> {
    /// To compute, which needs the device.
    Compute,
    /// To compute rows whose bits do not depend on other rows.
    ComputeRows,
    /// To explain which provider would compute, on the named GPU; without a name, on the one in this machine.
    Explain(Option<&'a str>),
}

impl Purpose<'_> {
    /// The determinism that this purpose requires.
    fn determinism(self) -> Determinism {
        if matches!(self, Purpose::ComputeRows) { Determinism::Batch } else { Determinism::Run }
    }
}

/// Opens a backend.
///
/// # Errors
/// The device cannot be opened, or there is no GPU of that name.
pub(crate) fn open(choice: Choice, purpose: Purpose<'_>) -> Result<Box<dyn Engine>, Failure> {
    match choice {
        Choice::Cpu | Choice::Reference | Choice::Checked => {
            Ok(Box::new(host(choice, purpose.determinism()).map_err(Failure::Op)?))
        }
        Choice::Rocm => Ok(Box::new(Observed::new(Gpu::open(purpose)?))),
    }
}
