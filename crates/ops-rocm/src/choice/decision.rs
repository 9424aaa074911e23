//! Decisions about which provider computes a problem, with reasons, and their cache.
use super::key::{ByKey, Key};
use crate::ProviderId;
use crate::sync::{Mutex, RwLock};
use ops_core::{Determinism, Op, Operands, Reason};
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a candidate was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It computes the op.
    Chosen,
    /// It could, but comes after the chosen one.
    Available,
    /// It cannot, or may not.
    Declined(Reason),
}

/// A provider of the op, with its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The provider.
    pub provider: ProviderId,
    /// Whether it was chosen.
    pub verdict: Verdict,
    /// The determinism that it guarantees; `None` if it cannot compute the problem or was not asked.
    pub determinism: Option<Determinism>,
    /// How it would compute the op, if it has more than one way.
    pub how: Option<String>,
    /// What it took when `ops tune` measured the providers of such problems, and when that was.
    pub measured: Option<String>,
    /// Why it was asked after the others, if it gave up its place in the op's list.
    pub deferred: Option<String>,
}

/// Which provider computes an op for a problem, and why the others do not.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The op.
    pub op: &'static str,
    /// The operands, as `x f16 [2, 8], ..`: those of the first problem with this decision.
    pub problem: String,
    /// The provider that computes it; `None` if no provider can.
    pub chosen: Option<ProviderId>,
    /// Every provider of the op, in the order in which they were asked.
    pub candidates: Vec<Candidate>,
    /// Number of calls with this decision.
    pub calls: u64,
}

impl Decision {
    /// Why no provider computes it: the reason of the last candidate that the policy allows.
    pub fn reason(&self) -> Reason {
        let declined = self.candidates.iter().rev().filter_map(|candidate| match &candidate.verdict {
            Verdict::Declined(reason) => Some(reason),
            _ => None,
        });
        let mut all: Vec<&Reason> = declined.collect();
        all.sort_by_key(|reason| **reason == Reason::Policy);
        all.first().map_or(Reason::Missing, |reason| (*reason).clone())
    }
}

impl fmt::Display for Decision {
    /// One line per candidate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.op, self.problem)?;
        for Candidate { provider, verdict, how, measured, deferred, determinism } in &self.candidates {
            let how = how.iter().chain(measured).map(|text| format!(", {text}")).collect::<String>();
            let level = determinism.map_or(String::new(), |level| format!(" [{level}]"));
            let why = deferred.as_ref().map_or(String::new(), |why| format!(": {why}"));
            match verdict {
                Verdict::Chosen => write!(f, "\n  {provider}: chosen{how}{level}")?,
                Verdict::Available => write!(f, "\n  {provider}: available, comes later{why}{how}{level}")?,
                Verdict::Declined(reason) => write!(f, "\n  {provider}: passed over: {reason}")?,
            }
        }
        Ok(())
    }
}

/// The operands as text: name, type and layout of each.
pub(crate) fn describe(on: &dyn Operands) -> String {
    let mut text = String::new();
    for operand in on.iter() {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{} {} {}", operand.name, operand.dtype, operand.layout);
    }
    text
}

/// The decisions made for a device so far.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    /// Keyed by op and options, and by the operands' types and layouts.
    by_problem: RwLock<ByKey<CachedDecision>>,
    log: Mutex<Log>,
}

/// Decisions in the order in which they were made.
#[derive(Debug, Default)]
struct Log {
    entries: Vec<Arc<Entry>>,
    /// The same by operand types: thousands of problems share a few decisions, so a search among all would be long.
    by_types: ByKey<Vec<Arc<Entry>>>,
}

/// A decision, with the index of the chosen provider in the op's list.
#[derive(Debug)]
struct CachedDecision {
    place: Option<usize>,
    entry: Arc<Entry>,
}

#[derive(Debug)]
struct Entry {
    decision: Decision,
    calls: AtomicU64,
}

impl CachedDecision {
    fn place(&self, runs: bool) -> Result<usize, Reason> {
        if runs {
            self.entry.calls.fetch_add(1, Ordering::Relaxed);
        }
        self.place.ok_or_else(|| self.entry.decision.reason())
    }
}

impl Decisions {
    /// Capacity of the cache. When it is full, it is cleared: making a decision again takes microseconds.
    const PROBLEMS: usize = 4096;
    /// Capacity of the list.
    const LISTED: usize = 1024;

    /// The index of the provider that computes a problem. `decide` is called on a cache miss; `runs` counts the call. A
    /// call that is `recorded` has a decision of its own.
    ///
    /// # Errors
    /// Why no provider computes it.
    pub(crate) fn place<O: Op>(
        &self,
        op: &O,
        on: &dyn Operands,
        (runs, recorded): (bool, bool),
        decide: impl FnOnce() -> (Option<usize>, Vec<Candidate>),
    ) -> Result<usize, Reason> {
        let problem = Key::of_problem(op, on, recorded);
        if let Some(cached) = self.by_problem.read().get(&problem) {
            return cached.place(runs);
        }
        let (place, candidates) = decide();
        let cached = CachedDecision { place, entry: self.entry(op.name_on(on), on, candidates) };
        let place = cached.place(runs);
        let mut problems = self.by_problem.write();
        if problems.len() >= Self::PROBLEMS {
            problems.clear();
        }
        problems.insert(problem, cached);
        place
    }

    /// Adds the decision to the list, unless the same decision was made for another shape of the same types.
    fn entry(&self, op: &'static str, on: &dyn Operands, candidates: Vec<Candidate>) -> Arc<Entry> {
        let types = Key::of_types(on);
        let mut log = self.log.lock();
        let same = |entry: &&Arc<Entry>| entry.decision.op == op && entry.decision.candidates == candidates;
        if let Some(entry) = log.by_types.get(&types).into_iter().flatten().find(same) {
            return entry.clone();
        }
        let chosen = candidates.iter().find(|c| c.verdict == Verdict::Chosen).map(|c| c.provider);
        let decision = Decision { op, problem: describe(on), chosen, candidates, calls: 0 };
        trace(&decision);
        let entry = Arc::new(Entry { decision, calls: AtomicU64::new(0) });
        if log.entries.len() < Self::LISTED {
            log.entries.push(entry.clone());
            log.by_types.entry(types).or_default().push(entry.clone());
        }
        entry
    }

    pub(crate) fn list(&self) -> Vec<Decision> {
        let log = self.log.lock();
        let current = |entry: &Arc<Entry>| Decision {
            calls: entry.calls.load(Ordering::Relaxed),
            ..entry.decision.clone()
        };
        log.entries.iter().map(current).collect()
    }
}

fn trace(decision: &Decision) {
    let Decision { op, problem, .. } = decision;
    let passed_over: Vec<String> = decision
        .candidates
        .iter()
        .filter_map(|candidate| match &candidate.verdict {
            Verdict::Declined(reason) => Some(format!("{}: {reason}", candidate.provider)),
            _ => None,
        })
        .collect();
    let why = passed_over.join("; ");
    match decision.chosen {
        Some(provider) => tracing::info!(op, %provider, problem, why, "op has a provider"),
        None => tracing::info!(op, problem, why, "op has no provider"),
    }
}
