//! AMD GPUs: the one in this machine, or an assumed one that only answers questions.
use super::Purpose;
use super::observed::Candidates;
use crate::exit::Failure;
use crate::problem::Candidate;
use ops_command::stderr;
use ops_core::{Backend, Call, Element, Error, Execute, Op, Operands, Reason, Result};
use ops_rocm::hip::{Event, Gfx};
use ops_rocm::{
    Decision, HipBuffer, HipMut, HipRef, HipSpace, Policy, Providers, Rocm, Target, Verdict, class_of,
};
use std::sync::Arc;

/// The GPU that is assumed if this machine has none.
const ASSUMED: &str = "gfx1100";

/// A GPU that computes, or one that only explains who would compute.
#[derive(Clone, Debug)]
pub(crate) enum Gpu {
    /// A GPU of this machine.
    Present(Rocm),
    /// A GPU that need not exist, with ROCm and all its libraries installed, under this policy.
    Assumed(Arc<(Target, Policy)>),
}

impl Gpu {
    /// Opens the GPU of this machine. If there is none and it is only needed for explanations, assumes one and says so on
    /// standard error.
    ///
    /// # Errors
    /// A GPU is required and missing, no GPU has the given name, or the policy cannot be read.
    pub(super) fn open(purpose: Purpose<'_>) -> Result<Self, Failure> {
        match purpose {
            // Like a missing file, a missing GPU is a usage error: no check has failed.
            Purpose::Compute | Purpose::ComputeRows => {
                let rocm = Rocm::builder().determinism(purpose.determinism()).build();
                rocm.map(Gpu::Present).map_err(|error| Failure::Usage(error.to_string()))
            }
            Purpose::Explain(Some(name)) => Gpu::assume(name),
            Purpose::Explain(None) => match Rocm::new() {
                Ok(rocm) => Ok(Gpu::Present(rocm)),
                Err(_) => {
                    let version = Target::ASSUMED_ROCM;
                    writeln!(
                        stderr(),
                        "ops: no GPU here (`ops info` says why); the answers are for {ASSUMED} with ROCm {version}"
                    );
                    Gpu::assume(ASSUMED)
                }
            },
        }
    }

    fn assume(name: &str) -> Result<Self, Failure> {
        let gfx = Gfx::parse(name).map_err(|error| Failure::Usage(error.to_string()))?;
        let policy = Policy::from_env().map_err(|error| Failure::Usage(error.to_string()))?;
        policy.check().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Gpu::Assumed(Arc::new((Target::assumed(gfx).promising(policy.least()), policy))))
    }

    /// The GPU to compute on.
    ///
    /// # Errors
    /// It is only assumed.
    pub(crate) fn rocm(&self) -> Result<&Rocm> {
        match self {
            Gpu::Present(rocm) => Ok(rocm),
            Gpu::Assumed(_) => Err(Error::Device {
                backend: "rocm",
                call: "computing",
                status: "the GPU is assumed, not present".into(),
            }),
        }
    }

    fn decide<O: Op>(&self, op: &O, on: &dyn Operands) -> Decision
    where
        Rocm: Providers<O>,
    {
        match self {
            Gpu::Present(rocm) => rocm.explain(op, on),
            Gpu::Assumed(assumed) => ops_rocm::explain(&assumed.0, &assumed.1, op, on),
        }
    }
}

impl Backend for Gpu {
    type Space = HipSpace;
    type Event = Event;

    fn name(&self) -> &'static str {
        "rocm"
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<HipBuffer<T>> {
        self.rocm()?.alloc(len)
    }
    fn read<T: Element>(&self, src: HipRef<'_, T>, start: usize, dst: &mut [T]) -> Result<()> {
        self.rocm()?.read(src, start, dst)
    }
    fn write<T: Element>(&self, src: &[T], dst: HipMut<'_, T>, start: usize) -> Result<()> {
        self.rocm()?.write(src, dst, start)
    }
    fn synchronize(&self) -> Result<()> {
        self.rocm()?.synchronize()
    }
    fn fork(&self) -> Result<Self> {
        Ok(Gpu::Present(self.rocm()?.fork()?))
    }
    fn mark(&self) -> Result<Event> {
        self.rocm()?.mark()
    }
    fn wait(&self, event: &Event) -> Result<()> {
        self.rocm()?.wait(event)
    }
}

impl<O: Op> Execute<O> for Gpu
where
    Rocm: Providers<O>,
{
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        match self {
            Gpu::Present(rocm) => rocm.support(op, on),
            Gpu::Assumed(_) => {
                let decision = self.decide(op, on);
                decision.chosen.map(|_| ()).ok_or_else(|| decision.reason())
            }
        }
    }
    fn execute(&self, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        self.rocm()?.execute(call)
    }
}

impl<O: Op> Candidates<O> for Gpu
where
    Rocm: Providers<O>,
{
    fn candidates(&self, op: &O, on: &dyn Operands) -> Vec<Candidate> {
        listed(&self.decide(op, on), &class_of(on))
    }
}

/// The candidates of a decision. A separate function, so that it is compiled once and not per op.
fn listed(decision: &Decision, class: &str) -> Vec<Candidate> {
    let mut passed = false;
    let candidates = decision.candidates.iter().map(|candidate| {
        let first = candidate.measured.as_ref().filter(|_| !passed).map(|_| "the fastest".to_owned());
        let (taken, reason) = match &candidate.verdict {
            Verdict::Chosen if first.is_some() => (true, first.unwrap_or_default()),
            Verdict::Chosen if passed => (true, "the first in order that can compute it".to_owned()),
            Verdict::Chosen => (true, "first in order, and it can compute it".to_owned()),
            Verdict::Available => (false, comes_later(candidate.deferred.as_deref())),
            Verdict::Declined(reason) => (false, reason.to_string()),
        };
        passed = true;
        let how = candidate.how.iter().chain(&candidate.measured).map(|how| format!(", {how}"));
        let reason = std::iter::once(reason).chain(how).collect();
        let (provider, determinism) = (candidate.provider.name(), candidate.determinism);
        Candidate { provider, taken, determinism, reason, class: Some(class.to_owned()) }
    });
    candidates.collect()
}

fn comes_later(why: Option<&str>) -> String {
    match why {
        Some(why) => format!("it could compute it, but comes later: {why}"),
        None => "it could compute it, but comes later in order".to_owned(),
    }
}
