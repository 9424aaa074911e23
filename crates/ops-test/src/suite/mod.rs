//! The suite: every op of core, in every type, over odd sizes and all layouts.
//!
//! Each result is judged by the op's own [`Tolerance`] against an oracle that
//! calls no backend and computes the same op from the same operands in double-double arithmetic. In
//! cases named `exact`, operands are small integers and results must be equal. Outputs lie in guarded
//! buffers, of which nothing outside the view may change. A backend that declines must have said so
//! beforehand and must not have touched an output; one that accepts must not decline later.
//!
//! Backends are seen through [`Backend`](ops_core::Backend) alone, wherever they compute.
use crate::dispatch::Runner;
use crate::judge::{Want, broken_promise, stray_write};
use crate::types::array;
use crate::{CallError, Case, Ran, SuiteBackend};
use draft::Draft;
use ops_core::ops::registry::Group;
use ops_core::{DType, Error, Tolerance};

mod activations;
mod attention;
mod casts;
mod data;
mod draft;
mod elementwise;
mod exact;
mod indices;
mod known;
mod moves;
mod norms;
mod oracle;
mod place;
mod products;
mod quant;
mod report;
mod rope;
mod softmax;

pub use report::{Counts, Ended, Filter, Outcome, Report, Table};

/// Runs the suite on a backend.
pub fn run<B: SuiteBackend>(backend: &B, filter: &Filter) -> Report {
    run_on(backend, filter)
}

fn run_on(runner: &dyn Runner, filter: &Filter) -> Report {
    let report = Report { backend: runner.name(), outcomes: Vec::new() };
    let mut suite = Suite { runner, filter, report };
    norms::cases(&mut suite);
    rope::cases(&mut suite);
    softmax::cases(&mut suite);
    attention::cases(&mut suite);
    products::cases(&mut suite);
    activations::cases(&mut suite);
    elementwise::cases(&mut suite);
    moves::cases(&mut suite);
    casts::cases(&mut suite);
    indices::cases(&mut suite);
    quant::cases(&mut suite);
    known::cases(&mut suite);
    exact::cases(&mut suite);
    suite.report
}

/// The float types.
const FLOATS: [DType; Group::Floats.members().len()] = array(Group::Floats);
/// The integer types.
const INTEGERS: [DType; Group::Integers.members().len()] = array(Group::Integers);
/// The types that may address rows.
const INDICES: [DType; Group::Indices.members().len()] = array(Group::Indices);
/// Lengths round the sizes of vectors, waves and blocks, and one longer than any workgroup.
const LENGTHS: [usize; 7] = [1, 31, 33, 63, 65, 127, 4097];

/// What should come of a case.
enum Expect {
    /// What the oracle gives, as near as the op promises.
    Near,
    /// What the oracle gives, which the output's type must hold exactly.
    Exactly,
    /// What the oracle gives, nearer than the op promises.
    Within(Tolerance),
    /// These values.
    Values(Vec<Want>),
    /// [`Error::Index`] for this value at this position, against this bound.
    Index { operand: &'static str, position: usize, index: i64, bound: usize },
}

/// A run in progress.
struct Suite<'r> {
    runner: &'r dyn Runner,
    filter: &'r Filter,
    report: Report,
}

impl Suite<'_> {
    /// Whether cases of this op and type are asked for: spares drawing their data.
    fn wants(&self, op: &str, dtype: DType) -> bool {
        self.filter.wants(op, dtype)
    }

    /// Those of some types that are asked for.
    fn asked(&self, op: &str, types: impl IntoIterator<Item = DType>) -> Vec<DType> {
        types.into_iter().filter(|d| self.wants(op, *d)).collect()
    }

    /// Runs a case against the oracle.
    fn run(&mut self, draft: Draft) {
        self.expect(draft, Expect::Near);
    }

    /// Runs a case.
    fn expect(&mut self, draft: Draft, expect: Expect) {
        let name = draft.name();
        if !self.wants(&draft.case.op, draft.case.dtype) || !self.filter.wants_case(&name) {
            return;
        }
        let ended = match self.runner.call(&draft.case) {
            Ok(ran) => ended(&draft.case, &expect, &ran).unwrap_or_else(|e| Ended::Fail(e.to_string())),
            Err(CallError::NotOffered(why)) => Ended::Unsupported(why),
            Err(e) => Ended::Fail(e.to_string()),
        };
        let Case { op, dtype, .. } = draft.case;
        self.report.outcomes.push(Outcome { op, dtype, case: name, ended });
    }
}

fn ended(case: &Case, expect: &Expect, ran: &Ran) -> Result<Ended, CallError> {
    if let Some(broken) = stray_write(case, ran).or_else(|| broken_promise(ran)) {
        return Ok(Ended::Fail(broken));
    }
    if let Err(Error::Unsupported { reason, .. }) = &ran.result {
        return Ok(Ended::Unsupported(reason.to_string()));
    }
    let wants = match expect {
        Expect::Index { operand, position, index, bound } => {
            return Ok(index_error(case, ran, (operand, *position, *index, *bound)));
        }
        Expect::Values(wants) => wants,
        Expect::Near => &oracle::wants(case)?,
        Expect::Exactly => &oracle::exact_wants(case)?,
        Expect::Within(tolerance) => &oracle::wants_within(case, *tolerance)?,
    };
    if let Err(e) = &ran.result {
        return Ok(Ended::Fail(e.to_string()));
    }
    for want in wants {
        let judged = want.judge(case, ran)?;
        if let Some(wrong) = judged.wrong {
            let (nmse, limit) = (judged.nmse, judged.limit);
            let measure =
                if judged.exact { String::new() } else { format!(" (nmse {nmse:.3e}, limit {limit:.3e})") };
            return Ok(Ended::Fail(wrong + &measure));
        }
    }
    Ok(Ended::Pass)
}

fn index_error(case: &Case, ran: &Ran, want: (&str, usize, i64, usize)) -> Ended {
    match &ran.result {
        Err(Error::Index { op, operand, position, index, bound })
            if *op == case.op && (*operand, *position, *index, *bound) == want =>
        {
            Ended::Pass
        }
        Err(e) => Ended::Fail(format!("wanted the index error {want:?}, got: {e}")),
        Ok(()) => Ended::Fail(format!("wanted the index error {want:?}, but the op succeeded")),
    }
}
