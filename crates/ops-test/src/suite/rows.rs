//! Independent rows: runs every case of the suite again, with fewer rows.
//!
//! A backend that guarantees [`Determinism::Batch`](ops_core::Determinism::Batch) gives a row the same bits
//! whatever other rows are in the call. Which operands have one row per output row is not listed for each op:
//! it is found with an oracle that computes rows one by one, and therefore gives the same rows if the right
//! operands are cut.
use super::{Report, run_on};
use crate::dispatch::Runner;
use crate::suite::Filter;
use crate::{CallError, Case, RunResult, SuiteBackend};
use ops_core::Role;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Numbers of rows that are computed separately from the others.
const SIZES: [usize; 14] = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63];

/// The result of [`run_rows`].
#[derive(Debug)]
pub struct Rows {
    /// As for [`run`](super::run); a row with different bits is also a failure.
    pub report: Report,
    /// Number of compared calls, by op.
    pub compared: BTreeMap<String, usize>,
}

/// Runs the cases of the suite with at most `most` elements in each operand, and each again with fewer rows
/// along any axis of its outputs but the last. Rows must have the same bits. `oracle` must compute each row
/// independently. `before` is called with each case's name before it runs.
pub fn run_rows<B: SuiteBackend, O: SuiteBackend>(
    backend: &B,
    oracle: &O,
    filter: &Filter,
    most: usize,
    before: &mut dyn FnMut(&str),
) -> Rows {
    let cut = Cut { backend, oracle, most, compared: Mutex::default() };
    let report = run_on(&cut, filter, before);
    Rows { report, compared: cut.compared.into_inner().unwrap_or_else(PoisonError::into_inner) }
}

struct Cut<'r> {
    backend: &'r dyn Runner,
    oracle: &'r dyn Runner,
    most: usize,
    compared: Mutex<BTreeMap<String, usize>>,
}

impl Runner for Cut<'_> {
    fn name(&self) -> &'static str {
        self.backend.name()
    }
    fn call(&self, case: &Case) -> Result<RunResult, CallError> {
        if case.operands.iter().any(|o| o.array.len() > self.most) {
            return Err(CallError::Unsupported("too large to run repeatedly with fewer rows".into()));
        }
        let whole = self.backend.call(case)?;
        if whole.result.is_ok() {
            self.compare(case, &whole)?;
        }
        Ok(whole)
    }
}

impl Cut<'_> {
    fn compare(&self, case: &Case, whole: &RunResult) -> Result<(), CallError> {
        let rank = case.outputs().map(|o| o.layout.rank()).min().unwrap_or(0);
        for axis in 0..if rank == 1 { 1 } else { rank.saturating_sub(1) } {
            let Some(rows) = rows_of(case, axis).filter(|_| are_rows(case, axis)) else {
                continue;
            };
            let Some(cut) = self.operands_of_rows(case, (axis, rows))? else { continue };
            let heads = SIZES.iter().copied().filter(|n| *n < rows).map(|n| 0..n);
            for range in heads.chain([rows - 1..rows, rows / 2..rows / 2 + 1, rows / 2..rows]) {
                self.compare_rows(case, whole, &cut, axis, range)?;
            }
        }
        Ok(())
    }

    fn compare_rows(
        &self,
        case: &Case,
        whole: &RunResult,
        cut: &[String],
        axis: usize,
        range: Range<usize>,
    ) -> Result<(), CallError> {
        let part = narrowed(case, cut, axis, range.clone())?;
        let ran = self.backend.call(&part)?;
        if let Err(error) = &ran.result {
            // A provider may lack a kernel for the remaining layout, but must say so.
            return ran.support.err().map(drop).ok_or_else(|| CallError::Malformed(error.to_string()));
        }
        if !same_rows(&part, whole, &ran)? {
            let why = format!(
                "rows {range:?} of axis {axis} have different bits alone than together with the others"
            );
            return Err(CallError::Malformed(why));
        }
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        *compared.entry(case.op.clone()).or_default() += 1;
        Ok(())
    }

    /// The operands with one row per output row: the smallest set of inputs whose cut leaves the oracle's
    /// rows unchanged.
    fn operands_of_rows(
        &self,
        case: &Case,
        (axis, rows): (usize, usize),
    ) -> Result<Option<Vec<String>>, CallError> {
        let whole = self.oracle.call(case)?;
        if whole.result.is_err() {
            return Ok(None);
        }
        let fitting = |o: &&crate::Operand| o.layout.dims().get(axis) == Some(&rows);
        let inputs: Vec<_> =
            case.operands.iter().filter(|o| o.role == Role::In).filter(fitting).map(|o| &o.name).collect();
        let mut sets: Vec<u32> = (0..1 << inputs.len().min(10)).collect();
        sets.sort_by_key(|set| set.count_ones());
        for set in sets {
            let chosen = inputs.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, name)| *name);
            let outputs = case.outputs().map(|o| &o.name);
            let cut: Vec<String> = chosen.chain(outputs).cloned().collect();
            let all = [rows / 2..rows, 0..1, rows - 1..rows];
            let mut right = true;
            for range in all {
                let part = narrowed(case, &cut, axis, range)?;
                right = right
                    && matches!(self.oracle.call(&part), Ok(ran)
                        if ran.result.is_ok() && same_rows(&part, &whole, &ran)?);
            }
            if right {
                return Ok(Some(cut));
            }
        }
        Ok(None)
    }
}

/// Whether an axis has rows. Channels of a convolution are not rows. The number of attention's queries may
/// determine their positions: with fewer of them, the first is a different row. Splits of a prefill keep the
/// positions, and are tested on whole decoders.
fn are_rows(case: &Case, axis: usize) -> bool {
    let given = |name| case.params.0.get(name).is_some_and(|value| !value.is_null());
    match case.op.as_str() {
        "attention" if axis == 2 => !given("causal") && !given("window") && case.operand("alibi").is_none(),
        conv if conv.starts_with("conv") => axis == 0 || conv == "conv1d_update",
        _ => true,
    }
}

/// The extent of an axis of all outputs, if there are several rows.
fn rows_of(case: &Case, axis: usize) -> Option<usize> {
    let mut outputs = case.outputs().map(|o| o.layout.dims().get(axis).copied());
    let rows = outputs.next()??;
    (rows > 1 && outputs.all(|other| other == Some(rows))).then_some(rows)
}

/// The case with these rows of these operands.
fn narrowed(case: &Case, cut: &[String], axis: usize, range: Range<usize>) -> Result<Case, CallError> {
    let mut part = case.clone();
    for name in cut {
        if let Some(operand) = part.operand_mut(name) {
            operand.layout = operand.layout.narrow(axis as isize, range.start, range.len())?;
        }
    }
    Ok(part)
}

/// Whether the outputs of a part have the same bits as the same rows of the whole.
fn same_rows(part: &Case, whole: &RunResult, ran: &RunResult) -> Result<bool, CallError> {
    for output in part.outputs() {
        let (Some(one), Some(other)) = (whole.buffer(&output.name), ran.buffer(&output.name)) else {
            return Ok(false);
        };
        let (one, other) = (one.gather(&output.layout)?, other.gather(&output.layout)?);
        // The bits of a NaN are not guaranteed.
        let nan = |x: &crate::Array, at| x.dtype().number(x.element(at)).is_some_and(|v| v.to_f64().is_nan());
        let same = |at| one.element(at) == other.element(at) || (nan(&one, at) && nan(&other, at));
        if !(0..one.len()).all(same) {
            return Ok(false);
        }
    }
    Ok(true)
}
