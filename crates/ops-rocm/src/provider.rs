//! Providers of ops, and how a call is matched with its provider.
use crate::choice::{Candidate, Decision, Measurement, Policy, Ranking, Target, Verdict, describe};
use crate::error::{NAME, failed};
use crate::{Error, HipSpace, ProviderId, Rocm};
use ops_core::{Call, Determinism, Execute, Op, Operands, Reason, Result, Tried};

/// One way to compute one op.
pub trait Provider<O: Op>: Sync {
    /// Its name in policies and reports.
    fn id(&self) -> ProviderId;

    /// Whether this provider computes this problem correctly on this device. Must not allocate or enqueue
    /// anything on the device.
    ///
    /// # Errors
    /// The reason why not.
    fn applicable(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<(), Reason>;

    /// The determinism it guarantees for this problem, given whether the target [sums by
    /// row](Target::sums_by_row). Exact ops are always [`Determinism::Exact`]; their providers need not say
    /// so.
    fn determinism(&self, target: &Target, op: &O, on: &dyn Operands) -> Determinism;

    /// How it would compute this problem, if it has more than one way. Called only if it is applicable.
    fn how(&self, _target: &Target, _op: &O, _on: &dyn Operands) -> Option<String> {
        None
    }

    /// [`applicable`](Self::applicable) and [`how`](Self::how) in one. Overridden by providers that plan the
    /// problem for either answer.
    ///
    /// # Errors
    /// The reason why it is not applicable.
    fn assess(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<Option<String>, Reason> {
        self.applicable(target, op, on).map(|()| self.how(target, op, on))
    }

    /// Why another provider should compute a problem that this one can compute, for example because the other
    /// is faster. It is then asked after those that do not defer, unless a policy has an order for the
    /// problem.
    fn defer(&self, _target: &Target, _op: &O, _on: &dyn Operands) -> Option<String> {
        None
    }

    /// Whether the library on this device has a kernel for a problem, if only the library knows. Returns the
    /// library's description of that kernel, which replaces [`how`](Self::how). Called on the candidate just
    /// before it is chosen.
    ///
    /// # Errors
    /// The reason why it cannot compute the problem. A failure of the library is not a reason: the launch
    /// reports it.
    fn probe(&self, _rocm: &Rocm, _op: &O, _on: &dyn Operands) -> Result<Option<String>, Reason> {
        Ok(None)
    }

    /// Enqueues the op. Called only if the op is applicable.
    ///
    /// # Errors
    /// On [`Error::Unsupported`](ops_core::Error::Unsupported) no output was touched.
    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, O, HipSpace>) -> Result<()>;
}

/// The providers of an op, best first: all that [`Rocm`] needs to execute it.
///
/// Other crates can add their own ops: `impl Providers<MyOp> for Rocm { const LIST: .. = &[&MyProvider]; }`
#[diagnostic::on_unimplemented(
    message = "`Rocm` has no providers for `{O}`",
    note = "write `impl Providers<{O}> for Rocm`, or wrap the backend as `Fallback::new(rocm, Cpu::new())`"
)]
pub trait Providers<O: Op> {
    /// Best first.
    const LIST: &'static [&'static dyn Provider<O>];
}

/// The candidates for a problem by rank, and which of them is chosen. Without a device, none is probed.
pub(crate) fn decide<O: Op>(
    list: &[&dyn Provider<O>],
    policy: &Policy,
    target: &Target,
    rocm: Option<&Rocm>,
    op: &O,
    on: &dyn Operands,
) -> (Option<usize>, Vec<Candidate>) {
    let providers = Asked {
        name: op.name_on(on),
        ids: ids(list),
        assess: &|at| list[at].assess(target, op, on),
        determinism: &|at| Determinism::of_call(op, on, list[at].determinism(target, op, on)),
        defer: &|at| list[at].defer(target, op, on),
        probe: &|at| rocm.map_or(Ok(None), |rocm| list[at].probe(rocm, op, on)),
        // Where rows must not depend on each other, their number must not choose the provider. What records a step cannot record
        // libraries.
        measured: (policy.least() == Determinism::Run && rocm.is_none_or(|rocm| !rocm.is_recording()))
            .then(|| target.measured_for(op.name_on(on), on))
            .flatten(),
    };
    providers.rank(policy, on)
}

/// The names of providers, in order.
fn ids<O: Op>(list: &[&dyn Provider<O>]) -> Vec<ProviderId> {
    ids_of(list.len(), &|at| list[at].id())
}

fn ids_of(count: usize, id: &dyn Fn(usize) -> ProviderId) -> Vec<ProviderId> {
    (0..count).map(id).collect()
}

/// The providers of an op, to be asked about one problem. It does not depend on the op's type, so it is
/// compiled once.
struct Asked<'p> {
    /// The op's name for this problem.
    name: &'static str,
    ids: Vec<ProviderId>,
    assess: &'p dyn Fn(usize) -> Result<Option<String>, Reason>,
    determinism: &'p dyn Fn(usize) -> Determinism,
    defer: &'p dyn Fn(usize) -> Option<String>,
    probe: &'p dyn Fn(usize) -> Result<Option<String>, Reason>,
    /// What was measured for such problems.
    measured: Option<&'p Measurement>,
}

impl Asked<'_> {
    fn rank(&self, policy: &Policy, on: &dyn Operands) -> (Option<usize>, Vec<Candidate>) {
        let Asked { name, ids, .. } = self;
        let ruled = policy.rank(name, ids, on);
        let by_default = ruled.is_none();
        let all = || Ranking { ranked: self.default_order(), forbidden: Vec::new() };
        let Ranking { ranked, forbidden } = ruled.unwrap_or_else(all);
        let wanted = policy.least();
        let mut asked: Vec<_> = ranked.into_iter().map(|at| (at, self.ask(at, by_default, wanted))).collect();
        asked.sort_by_key(|(_, candidate)| candidate.deferred.is_some());
        let chosen = asked.iter_mut().find_map(|(at, candidate)| self.choose(*at, candidate));
        let refused = |at: usize| self.candidate(at, Verdict::Declined(Reason::Policy));
        let candidates = asked.into_iter().map(|(_, candidate)| candidate);
        (chosen, candidates.chain(forbidden.into_iter().map(refused)).collect())
    }

    /// The providers in the order that was measured, then the others in that of the list.
    fn default_order(&self) -> Vec<usize> {
        let times = self.measured.map_or(&[][..], |row| &row.times);
        let mut order: Vec<usize> = times.iter().filter_map(|(id, _)| self.place(id)).collect();
        order.extend(
            (0..self.ids.len()).filter(|at| !times.iter().any(|(id, _)| self.place(id) == Some(*at))),
        );
        order
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.ids.iter().position(|id| id.name() == name)
    }

    /// Chooses a candidate, if it is available and has a kernel.
    fn choose(&self, at: usize, candidate: &mut Candidate) -> Option<usize> {
        if candidate.verdict != Verdict::Available {
            return None;
        }
        match (self.probe)(at) {
            Ok(how) => {
                candidate.verdict = Verdict::Chosen;
                candidate.how = how.or(candidate.how.take());
                Some(at)
            }
            Err(reason) => {
                let determinism = candidate.determinism;
                *candidate = Candidate { determinism, ..self.candidate(at, Verdict::Declined(reason)) };
                None
            }
        }
    }

    /// One provider's answer.
    fn ask(&self, at: usize, by_default: bool, wanted: Determinism) -> Candidate {
        let how = match (self.assess)(at) {
            Ok(how) => how,
            Err(reason) => return self.candidate(at, Verdict::Declined(reason)),
        };
        let available = (self.determinism)(at);
        let promises = Candidate { determinism: Some(available), ..self.candidate(at, Verdict::Available) };
        if available < wanted {
            let verdict = Verdict::Declined(Reason::Determinism { wanted, available });
            return Candidate { verdict, ..promises };
        }
        let id = self.ids[at].name();
        let time = self
            .measured
            .filter(|_| by_default)
            .and_then(|row| row.times.iter().find(|(name, _)| name == id));
        let measured = self
            .measured
            .zip(time)
            .map(|(row, (_, ns))| format!("measured: {:.1} µs ({})", ns / 1e3, row.date));
        // What was measured needs no reason to be asked later.
        let deferred = if by_default && measured.is_none() { (self.defer)(at) } else { None };
        Candidate { how, measured, deferred, ..promises }
    }

    fn candidate(&self, at: usize, verdict: Verdict) -> Candidate {
        Candidate {
            provider: self.ids[at],
            verdict,
            determinism: None,
            how: None,
            measured: None,
            deferred: None,
        }
    }
}

impl Rocm {
    /// Which provider would compute an op for these operands, and why the others would not. Runs and counts
    /// nothing.
    pub fn explain<O: Op>(&self, op: &O, on: &dyn Operands) -> Decision
    where
        Rocm: Providers<O>,
    {
        explain_on(self.target(), self.policy(), Some(self), op, on)
    }

    /// The index of the provider that computes this; `runs` counts the call.
    fn choose<O: Op>(&self, op: &O, on: &dyn Operands, runs: bool) -> std::result::Result<usize, Reason>
    where
        Rocm: Providers<O>,
    {
        let list = <Rocm as Providers<O>>::LIST;
        self.decided().place(op, on, (runs, self.is_recording()), || {
            decide(list, self.policy(), self.target(), Some(self), op, on)
        })
    }

    /// Launches the call on the provider that is chosen for it.
    fn launch<'c, 'a, O: Op>(&self, call: Call<'c, 'a, O, HipSpace>) -> Result<Tried<'c, 'a, O, HipSpace>>
    where
        Rocm: Providers<O>,
    {
        match self.choose(call.op(), call.operands(), true) {
            Ok(place) => {
                let provider = <Rocm as Providers<O>>::LIST[place];
                if let Err(reason) = self.require_recordable(provider.id()) {
                    return Err(Error::Unsupported { op: call.name(), backend: NAME, reason });
                }
                provider.launch(self, call).map(|()| Tried::Done)
            }
            Err(reason) => Ok(Tried::Declined(call, reason)),
        }
    }

    /// Checks policies made in code, and those for ops of other crates; this is only possible when the op is
    /// called.
    fn check_policy<O: Op>(&self, op: &O, on: &dyn Operands) -> Result<(), String>
    where
        Rocm: Providers<O>,
    {
        if self.policy().is_default() {
            return Ok(());
        }
        let ids = ids(<Rocm as Providers<O>>::LIST);
        self.policy().check_names(op.name_on(on), &ids).map_err(|error| error.to_string())
    }
}

/// Which provider would compute an op for these operands on a target that need not be present.
pub fn explain<O: Op>(target: &Target, policy: &Policy, op: &O, on: &dyn Operands) -> Decision
where
    Rocm: Providers<O>,
{
    explain_on(target, policy, None, op, on)
}

fn explain_on<O: Op>(
    target: &Target,
    policy: &Policy,
    rocm: Option<&Rocm>,
    op: &O,
    on: &dyn Operands,
) -> Decision
where
    Rocm: Providers<O>,
{
    let (place, candidates) = decide(<Rocm as Providers<O>>::LIST, policy, target, rocm, op, on);
    let chosen = place.map(|place| <Rocm as Providers<O>>::LIST[place].id());
    Decision { op: op.name_on(on), problem: describe(on), chosen, candidates, calls: 0 }
}

impl<O: Op> Execute<O> for Rocm
where
    Rocm: Providers<O>,
{
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        on.require_plain()?;
        self.check_policy(op, on).map_err(Reason::Because)?;
        self.choose(op, on, false).map(drop)
    }

    fn fuses(&self, op: &O, on: &dyn Operands) -> bool {
        let list = <Rocm as Providers<O>>::LIST;
        self.choose(op, on, false).is_ok_and(|place| list[place].id() != ProviderId::PARTS)
    }
    fn determinism(&self, op: &O, on: &dyn Operands) -> Determinism {
        match self.choose(op, on, false) {
            Ok(place) => {
                let provider = <Rocm as Providers<O>>::LIST[place];
                Determinism::of_call(op, on, provider.determinism(self.target(), op, on))
            }
            Err(_) => Determinism::Run,
        }
    }

    fn execute(&self, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        self.check_policy(call.op(), call.operands()).map_err(|why| failed("choosing a provider", why))?;
        match self.launch(call)? {
            Tried::Done => Ok(()),
            Tried::Declined(call, reason) => {
                Err(Error::Unsupported { op: call.name(), backend: NAME, reason })
            }
        }
    }

    fn try_execute<'c, 'a>(&self, call: Call<'c, 'a, O, HipSpace>) -> Result<Tried<'c, 'a, O, HipSpace>> {
        match self.check_policy(call.op(), call.operands()) {
            Ok(()) => self.launch(call),
            Err(why) => Ok(Tried::Declined(call, Reason::Because(why))),
        }
    }
}
