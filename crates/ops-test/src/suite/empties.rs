//! Empty operands: every op again, with an axis of each operand empty in turn.
//!
//! Which axes must be empty together is found with the op's own shape rule, so no list of ops has to be kept. An operand
//! without elements gets a buffer without bytes, which on a GPU has no address.
use super::placement::Placement;
use super::{CaseStatus, Outcome, Report, run_on};
use crate::dispatch::{Ruled, Runner, rule};
use crate::judge::{Want, contradicted_support, stray_write};
use crate::suite::Filter;
use crate::{Array, CallError, Case, RunResult, SuiteBackend};
use ops_core::{Error, Layout, Role};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of axes that must change together with an empty one.
const MAX_TOGETHER: usize = 4;
/// Maximum number of sets of axes that are tried for each axis.
const MAX_TRIED: usize = 3000;

/// Runs every op that the filter selects with empty operands, on a backend and on `oracle`, whose results and errors must
/// agree, except that the backend need not report an index that leads to no element. `before` is called with each case's name before it runs.
pub fn run_empties<B: SuiteBackend, O: SuiteBackend>(
    backend: &B,
    oracle: &O,
    filter: &Filter,
    before: &mut dyn FnMut(&str),
) -> Report {
    let smallest = Smallest::default();
    run_on(&smallest, filter, &mut |_| {});
    let (backend, oracle): (&dyn Runner, &dyn Runner) = (backend, oracle);
    let mut report = Report { backend: backend.name(), outcomes: Vec::new() };
    for case in smallest.0.into_inner().into_values() {
        for cuts in sets_of_cuts(&case, &rule::<O>) {
            let (name, status) = match emptied(&case, &cuts, &rule::<O>) {
                Ok((part, _)) if has_heads_of_nothing(&part) => continue,
                Ok((part, rules)) => {
                    let name = name(&part);
                    before(&name);
                    let status = compare(&part, &rules, backend, oracle);
                    (name, status.unwrap_or_else(|e| CaseStatus::Fail(e.to_string())))
                }
                Err(e) => (name(&case), CaseStatus::Fail(e.to_string())),
            };
            report.outcomes.push(Outcome { op: case.op.clone(), dtype: case.dtype, case: name, status });
        }
    }
    report
}

/// Whether it is attention over heads without elements, whose default scale is infinite and whose products are NaN.
fn has_heads_of_nothing(case: &Case) -> bool {
    let query = case.operand("q").filter(|_| case.op.starts_with("attention"));
    query.is_some_and(|q| q.layout.dims().last() == Some(&0))
}

/// Runs nothing: collects the smallest case of every op with the same operands and ranks.
#[derive(Default)]
struct Smallest(RefCell<BTreeMap<String, Case>>);

impl Runner for Smallest {
    fn name(&self) -> &'static str {
        "nothing"
    }
    fn call(&self, case: &Case) -> Result<RunResult, CallError> {
        let elements = |case: &Case| case.operands.iter().map(|o| o.layout.len()).sum::<usize>();
        let operands: Vec<_> = case.operands.iter().map(|o| (&o.name, o.layout.rank())).collect();
        let kind = format!("{} {} {operands:?}", case.op, case.dtype);
        let mut cases = self.0.borrow_mut();
        if cases.get(&kind).is_none_or(|known| elements(case) < elements(known)) {
            cases.insert(kind, case.clone());
        }
        Err(CallError::Unsupported("only collected".into()))
    }
}

/// An operand that is read, one of its axes, and the new extent of that axis.
type Cut = (usize, usize, usize);
/// What an op's rule says of the outputs of a case.
type Rule<'r> = &'r dyn Fn(&Case) -> Result<Vec<Ruled>, CallError>;

/// For each axis of each operand that is read, the smallest sets of cuts that make it empty and that the op accepts,
/// and any two such sets together.
fn sets_of_cuts(case: &Case, rule: Rule<'_>) -> BTreeSet<Vec<Cut>> {
    let mut found = BTreeSet::new();
    let axes: Vec<Cut> = (case.operands.iter().enumerate().filter(|(_, o)| o.role != Role::Out))
        .flat_map(|(i, o)| o.layout.dims().iter().enumerate().map(move |(axis, n)| (i, axis, *n)))
        .filter(|(.., n)| *n > 0)
        .collect();
    for &(operand, axis, n) in &axes {
        let others = axes.iter().filter(|(o, a, _)| (*o, *a) != (operand, axis));
        let mut related: Vec<(usize, Cut)> = others.filter_map(|other| related(n, *other)).collect();
        related.sort_unstable();
        let related: Vec<Cut> = related.into_iter().map(|(_, cut)| cut).collect();
        let accepted = |more: &[Cut]| {
            let mut cuts = [more, &[(operand, axis, 0)]].concat();
            cuts.sort_unstable();
            emptied(&skeleton(case), &cuts, rule).is_ok().then_some(cuts)
        };
        let smallest = (0..=MAX_TOGETHER).find_map(|count| {
            let sets: Vec<_> = subsets(&related, count).iter().filter_map(|more| accepted(more)).collect();
            (!sets.is_empty()).then_some(sets)
        });
        found.extend(smallest.unwrap_or_default());
    }
    let singles: Vec<Vec<Cut>> = found.iter().cloned().collect();
    for (i, one) in singles.iter().enumerate() {
        for other in &singles[i + 1..] {
            let both: BTreeSet<Cut> = one.iter().chain(other).copied().collect();
            let both: Vec<Cut> = both.into_iter().collect();
            if emptied(&skeleton(case), &both, rule).is_ok() {
                found.insert(both);
            }
        }
    }
    found
}

/// How an axis may have to change if one of extent `n` becomes empty, with the most likely changes first.
fn related(n: usize, (operand, axis, m): Cut) -> Option<(usize, Cut)> {
    match m {
        _ if m == n => Some((0, (operand, axis, 0))),
        // Starts of `n` sequences.
        _ if m == n + 1 => Some((1, (operand, axis, 1))),
        // Blocks, groups of heads.
        _ if m.is_multiple_of(n) || n.is_multiple_of(m) => Some((2, (operand, axis, 0))),
        _ => None,
    }
}

/// The sets of `count` of these cuts.
fn subsets(of: &[Cut], count: usize) -> Vec<Vec<Cut>> {
    let mut sets = vec![(0, Vec::new())];
    for _ in 0..count {
        let longer = |(from, set): &(usize, Vec<Cut>)| {
            let (from, set) = (*from, set.clone());
            (from..of.len()).map(move |at| (at + 1, [set.as_slice(), &[of[at]]].concat())).collect::<Vec<_>>()
        };
        sets = sets.iter().flat_map(longer).take(MAX_TRIED).collect();
    }
    sets.into_iter().map(|(_, set)| set).collect()
}

/// The case without elements, for asking the rule.
fn skeleton(case: &Case) -> Case {
    let mut case = case.clone();
    for operand in &mut case.operands {
        operand.array = super::data::zeroed(operand.array.dtype(), 0);
    }
    case
}

/// The case with these cuts, and with outputs as the rule says. An error if the op does not accept it.
fn emptied(case: &Case, cuts: &[Cut], rule: Rule<'_>) -> Result<(Case, Vec<Ruled>), CallError> {
    let mut part = case.clone();
    let narrowed = cuts.iter().map(|(operand, ..)| *operand).collect::<BTreeSet<_>>();
    for (operand, axis, len) in cuts {
        let layout = &mut part.operands[*operand].layout;
        *layout = layout.narrow(*axis as isize, 0, *len)?;
    }
    for at in narrowed {
        let operand = &mut part.operands[at];
        let layout = Layout::contiguous(operand.layout.dims())?;
        if !operand.array.is_empty() {
            operand.array = operand.array.gather(&operand.layout)?;
        }
        operand.layout = layout;
    }
    let rules = rule(&part)?;
    for ruled in &rules {
        let Some(output) = part.operand_mut(ruled.name) else { continue };
        let dims = ruled.shape.dims();
        match output.role {
            Role::Out if dims.contains(&0) => {
                output.array = Array::zeroed(output.array.dtype(), 0)?;
                output.layout = Layout::contiguous(dims)?;
            }
            Role::Out => {
                (output.array, output.layout) = Placement::Plain.output(output.array.dtype(), dims);
            }
            _ if output.layout.dims() == dims => {}
            _ => return Err(CallError::Malformed(format!("`{}` would be {dims:?}", ruled.name))),
        }
    }
    Ok((part, rules))
}

fn name(case: &Case) -> String {
    let operands: Vec<String> =
        case.operands.iter().map(|o| format!("{}={:?}", o.name, o.layout.dims())).collect();
    format!("{}(dtype={}, {})", case.op, case.dtype, operands.join(", "))
}

fn compare(
    case: &Case,
    rules: &[Ruled],
    backend: &dyn Runner,
    oracle: &dyn Runner,
) -> Result<CaseStatus, CallError> {
    let (want, got) = (oracle.call(case)?, backend.call(case)?);
    if let Some(broken) = stray_write(case, &got).or_else(|| contradicted_support(&got)) {
        return Ok(CaseStatus::Fail(broken));
    }
    match (&want.result, &got.result) {
        (_, Err(Error::Unsupported { reason, .. })) => Ok(CaseStatus::Unsupported(reason.to_string())),
        (Ok(()), Ok(())) => {
            for Ruled { name, tolerance, .. } in rules {
                let (Some(output), Some(buffer)) = (case.operand(name), want.buffer(name)) else { continue };
                let values = buffer.gather(&output.layout)?;
                let want = Want { name: (*name).into(), values, tolerance: *tolerance };
                if let Some(wrong) = want.judge(case, &got)?.wrong {
                    return Ok(CaseStatus::Fail(wrong));
                }
            }
            Ok(CaseStatus::Pass)
        }
        // If several indices are out of range, any of them may be reported.
        (Err(Error::Index { op: want, .. }), Err(Error::Index { op: got, .. })) if want == got => {
            Ok(CaseStatus::Pass)
        }
        // An index that leads to no element may go unnoticed: a launch without work is left out.
        (Err(Error::Index { .. }), Ok(())) => Ok(CaseStatus::Pass),
        (Err(want), Err(got)) if want.to_string() == got.to_string() => Ok(CaseStatus::Pass),
        (want, got) => {
            let show = |result: &Result<(), Error>| match result {
                Ok(()) => "success".to_owned(),
                Err(error) => error.to_string(),
            };
            Ok(CaseStatus::Fail(format!("got {}, wanted {}", show(got), show(want))))
        }
    }
}
