//! The suite: every op, in every type, over odd sizes and all layouts.
//!
//! Each result is judged by the op's own [`Tolerance`] against an oracle that calls no backend and
//! computes the same op from the same operands in double-double arithmetic. In cases named `exact`,
//! operands are small integers and results must be equal. Outputs are in guarded buffers, and nothing
//! outside the view may change. A backend that declines a call must have said so beforehand and must not
//! have written an output; a backend that accepts a call must not decline it later.
//!
//! Backends are used only through [`Backend`](ops_core::Backend), wherever they compute.
use crate::dispatch::Runner;
use crate::judge::{Want, contradicted_support, stray_write};
use crate::types::array;
use crate::{CallError, Case, RunResult, SuiteBackend};
use draft::CaseBuilder;
use ops_core::ops::registry::Group;
use ops_core::{DType, Error, Tolerance};
use std::cell::OnceCell;
use std::collections::BTreeMap;

mod activation;
mod attention;
mod batch_norm;
mod bitwise;
mod blocks;
mod cache;
mod cast;
mod compare;
mod conv;
mod copy;
mod data;
mod draft;
mod elementwise;
mod empties;
mod exact;
mod experts;
mod fused;
mod gated;
mod grids;
mod index;
mod known;
mod linear_attention;
mod matmul;
mod norm;
mod oracle;
mod parametric;
mod placement;
mod pool;
mod quant;
mod reduce;
mod report;
mod rope;
mod routing;
mod rows;
mod sampling;
mod scan;
mod scatter;
mod softmax;
mod sort;
mod upsample;
mod where_;

pub use empties::run_empties;
pub use report::{CaseStatus, Counts, Filter, Outcome, Report, Table};
pub use rows::{Rows, run_rows};

/// Runs the suite on a backend.
pub fn run<B: SuiteBackend>(backend: &B, filter: &Filter) -> Report {
    run_observed(backend, filter, &mut |_| {})
}

/// As [`run`], and calls `before` with each case's name before it runs: a fault of a device may end the process.
pub fn run_observed<B: SuiteBackend>(backend: &B, filter: &Filter, before: &mut dyn FnMut(&str)) -> Report {
    run_on(backend, filter, before)
}

/// As [`run`], on two backends: each case is drawn, and its expected result computed, once for both.
pub fn run_both<A: SuiteBackend, B: SuiteBackend>(a: &A, b: &B, filter: &Filter) -> Vec<Report> {
    run_on_each(&[a, b], filter, &mut |_| {})
}

/// As [`run_both`], on any number of devices of one kind. A report for each, in their order.
pub fn run_all<B: SuiteBackend>(backends: &[B], filter: &Filter) -> Vec<Report> {
    let runners: Vec<&dyn Runner> = backends.iter().map(|backend| backend as &dyn Runner).collect();
    run_on_each(&runners, filter, &mut |_| {})
}

fn run_on(runner: &dyn Runner, filter: &Filter, before: &mut dyn FnMut(&str)) -> Report {
    run_on_each(&[runner], filter, before).remove(0)
}

fn run_on_each(runners: &[&dyn Runner], filter: &Filter, before: &mut dyn FnMut(&str)) -> Vec<Report> {
    let report = |runner: &&dyn Runner| Report { backend: runner.name(), outcomes: Vec::new() };
    let mut reports: Vec<Report> = runners.iter().map(report).collect();
    run_cases(Suite { runners, filter, before, seen: BTreeMap::new(), reports: &mut reports });
    reports
}

fn run_cases(mut suite: Suite<'_>) {
    norm::cases(&mut suite);
    rope::cases(&mut suite);
    rope::qk_norm_rope::cases(&mut suite);
    softmax::cases(&mut suite);
    attention::cases(&mut suite);
    attention::ragged_cases(&mut suite);
    linear_attention::cases(&mut suite);
    cache::cases(&mut suite);
    fused::cases(&mut suite);
    matmul::cases(&mut suite);
    conv::cases(&mut suite);
    activation::cases(&mut suite);
    elementwise::cases(&mut suite);
    parametric::cases(&mut suite);
    bitwise::cases(&mut suite);
    compare::cases(&mut suite);
    copy::cases(&mut suite);
    where_::cases(&mut suite);
    cast::cases(&mut suite);
    index::cases(&mut suite);
    scatter::cases(&mut suite);
    quant::cases(&mut suite);
    reduce::cases(&mut suite);
    scan::cases(&mut suite);
    sort::cases(&mut suite);
    batch_norm::cases(&mut suite);
    pool::cases(&mut suite);
    upsample::cases(&mut suite);
    gated::cases(&mut suite);
    routing::cases(&mut suite);
    sampling::cases(&mut suite);
    experts::cases(&mut suite);
    known::cases(&mut suite);
    exact::cases(&mut suite);
}

/// The float types.
const FLOATS: [DType; Group::Floats.members().len()] = array(Group::Floats);
/// The integer types.
const INTEGERS: [DType; Group::Integers.members().len()] = array(Group::Integers);
/// The types of indices.
const INDICES: [DType; Group::Indices.members().len()] = array(Group::Indices);
/// Lengths around the sizes of vectors, waves and blocks, and one longer than any workgroup.
const LENGTHS: [usize; 7] = [1, 31, 33, 63, 65, 127, 4097];

/// The expected result of a case.
enum Expect {
    /// The oracle's result, within the op's tolerance.
    Near,
    /// The oracle's result exactly; the output's type must be able to represent it.
    Exactly,
    /// The oracle's result, within a tighter tolerance than the op's.
    Within(Tolerance),
    /// These values.
    Values(Vec<Want>),
    /// [`Error::Index`] for this value at this position, with this bound.
    Index { operand: &'static str, position: usize, index: i64, bound: usize },
}

/// A run in progress.
struct Suite<'r> {
    runners: &'r [&'r dyn Runner],
    filter: &'r Filter,
    before: &'r mut dyn FnMut(&str),
    /// Number of cases seen so far, by op and type.
    seen: BTreeMap<(String, DType), usize>,
    /// A report for each runner.
    reports: &'r mut [Report],
}

impl Suite<'_> {
    /// Whether the filter selects any case of this op and type; if not, drawing data can be skipped.
    fn wants(&self, op: &str, dtype: DType) -> bool {
        let stopped =
            self.filter.until_failure && self.reports.iter().any(|report| report.failures().next().is_some());
        !stopped && self.filter.wants(op, dtype)
    }

    /// The types among these that the filter selects.
    fn asked(&self, op: &str, types: impl IntoIterator<Item = DType>) -> Vec<DType> {
        types.into_iter().filter(|d| self.wants(op, *d)).collect()
    }

    /// Whether the next case of this op and type should run.
    fn has_turn(&mut self, op: &str, dtype: DType) -> bool {
        let Some(count) = self.filter.one_case_in else { return true };
        let seen = self.seen.entry((op.to_owned(), dtype)).or_default();
        *seen += 1;
        (*seen - 1).is_multiple_of(count.max(1))
    }

    /// Runs a case and compares it with the oracle.
    fn run(&mut self, draft: CaseBuilder) {
        self.expect(draft, Expect::Near);
    }

    /// Runs a case and compares it with `expect`.
    fn expect(&mut self, mut draft: CaseBuilder, expect: Expect) {
        let (name, op, dtype) = (draft.name(), draft.op().to_owned(), draft.dtype());
        if !self.wants(&op, dtype) || !self.filter.wants_case(&name) || !self.has_turn(&op, dtype) {
            return;
        }
        (self.before)(&name);
        let case = draft.case();
        let wants = OnceCell::new();
        for (runner, report) in self.runners.iter().zip(&mut *self.reports) {
            let status = match runner.call(case) {
                Ok(ran) => judge_case(case, &expect, &wants, &ran)
                    .unwrap_or_else(|e| CaseStatus::Fail(e.to_string())),
                Err(CallError::Unsupported(why)) => CaseStatus::Unsupported(why),
                Err(e) => CaseStatus::Fail(e.to_string()),
            };
            report.outcomes.push(Outcome { op: op.clone(), dtype, case: name.clone(), status });
        }
    }
}

/// Judges a result. `wants` keeps what the oracle computes.
fn judge_case(
    case: &Case,
    expect: &Expect,
    wants: &OnceCell<Result<Vec<Want>, CallError>>,
    ran: &RunResult,
) -> Result<CaseStatus, CallError> {
    if let Some(broken) = stray_write(case, ran).or_else(|| contradicted_support(ran)) {
        return Ok(CaseStatus::Fail(broken));
    }
    if let Err(Error::Unsupported { reason, .. }) = &ran.result {
        return Ok(CaseStatus::Unsupported(reason.to_string()));
    }
    let computed = |compute: &dyn Fn() -> Result<Vec<Want>, CallError>| {
        wants.get_or_init(compute).as_deref().map_err(Clone::clone)
    };
    let wants = match expect {
        Expect::Index { operand, position, index, bound } => {
            return Ok(index_error(case, ran, (operand, *position, *index, *bound)));
        }
        Expect::Values(wants) => wants,
        Expect::Near => computed(&|| oracle::wants(case))?,
        Expect::Exactly => computed(&|| oracle::exact_wants(case))?,
        Expect::Within(tolerance) => computed(&|| oracle::wants_within(case, *tolerance))?,
    };
    if let Err(e) = &ran.result {
        return Ok(CaseStatus::Fail(e.to_string()));
    }
    for want in wants {
        let judged = want.judge(case, ran)?;
        if let Some(wrong) = judged.wrong {
            let (nmse, limit) = (judged.nmse, judged.limit);
            let measure =
                if judged.exact { String::new() } else { format!(" (nmse {nmse:.3e}, limit {limit:.3e})") };
            return Ok(CaseStatus::Fail(wrong + &measure));
        }
    }
    Ok(CaseStatus::Pass)
}

/// The name that errors have for a case's op. Those of files and policies also depend on the type of a table or a weight.
fn called(case: &Case) -> &str {
    match case.op.as_str() {
        "index_select" | "qembedding" if case.operand("table").is_some() => "embedding",
        "qlinear_experts" => "linear_experts",
        name => name,
    }
}

/// The part that reads the indices, if a backend computes the op as parts: errors have its name.
fn part(case: &Case) -> Option<&str> {
    match case.op.as_str() {
        "linear_experts_swiglu" | "linear_experts_combine" => Some("linear_experts"),
        "rms_norm_linear_rope_cache_write" => Some("rope_qk_cache_write"),
        _ => None,
    }
}

fn index_error(case: &Case, ran: &RunResult, want: (&str, usize, i64, usize)) -> CaseStatus {
    match &ran.result {
        Err(Error::Index { op, operand, position, index, bound })
            if (*op == called(case) || Some(*op) == part(case))
                && (*operand, *position, *index, *bound) == want =>
        {
            CaseStatus::Pass
        }
        Err(e) => CaseStatus::Fail(format!("wanted the index error {want:?}, got: {e}")),
        Ok(()) => CaseStatus::Fail(format!("wanted the index error {want:?}, but the op succeeded")),
    }
}
