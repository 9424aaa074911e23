//! Replays a trace: checks each call against the reference, and times each op and shape.
use super::Counts;
use crate::backend::Engine;
use crate::bench::{CHECK_LIMIT, Floor, in_turn, rounded};
use crate::ceilings::Ceilings;
use crate::exit::Failure;
use crate::output::{Progress, Table, json_line};
use crate::problem::{Checked, Form, Recording};
use crate::units::time;
use ops_core::Error;
use ops_test::CallError;
use ops_test::golden::Status;
use ops_test::trace::{NotRecorded, Trace, TraceError, TracedCall};
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const TITLES: [&str; 9] =
    ["op", "dtype", "shape", ">calls", ">time", ">share", ">floor", ">error/limit", "verdict"];
/// Time budget per measurement.
const BUDGET: Duration = Duration::from_millis(20);

/// The calls of one op on operands with the same types and layouts: one row of the table, and of the JSON.
#[derive(Debug, Serialize)]
struct Row {
    file: String,
    op: String,
    dtype: String,
    /// The shape of the operand that the contract names first.
    shape: Vec<usize>,
    /// Shapes in the notation of `ops explain --shape`.
    operands: String,
    backend: &'static str,
    provider: Option<&'static str>,
    calls: u64,
    /// Number of calls that differ in options or values.
    distinct: usize,
    ns: Option<f64>,
    total_ns: Option<f64>,
    /// Percentage of the run's time.
    share: Option<f64>,
    floor_ns: Option<f64>,
    bound: Option<&'static str>,
    checked: usize,
    nmse: Option<f64>,
    limit: Option<f64>,
    #[serde(serialize_with = "as_text")]
    status: Status,
    reason: Option<String>,
}

fn as_text<S: serde::Serializer>(status: &Status, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(status)
}

/// State for replaying traces.
pub(super) struct Replay<'e> {
    engine: &'e dyn Engine,
    ceilings: Box<dyn Ceilings>,
    /// Maximum number of bytes for the operands of a call.
    memory: usize,
    json: bool,
}

impl<'e> Replay<'e> {
    pub(super) fn new(engine: &'e dyn Engine, memory: usize, json: bool) -> Self {
        Replay { engine, ceilings: engine.ceilings(BUDGET / 3), memory, json }
    }

    /// Replays the trace in a file, writes its rows and counts them.
    ///
    /// # Errors
    /// Standard output cannot be written. The inner error means that the file cannot be read.
    pub(super) fn file(
        &mut self,
        path: &Path,
        counts: &mut Counts,
        progress: &mut Progress,
        out: &mut dyn Write,
    ) -> Result<Result<(), TraceError>, Failure> {
        let mut trace = match Trace::open(path) {
            Ok(trace) => trace,
            Err(error) => return Ok(Err(error)),
        };
        let mut calls = vec![0u64; trace.calls.len()];
        trace.run.iter().for_each(|call| calls[*call] += 1);
        let (mut rows, mut known) = (Vec::new(), HashMap::new());
        for (at, call) in trace.calls.iter().enumerate() {
            progress.step(at, calls.len(), &format!("{} {}", call.op, call.dtype));
            progress.detail(&format!("{}: call {at}: {} {}", path.display(), call.op, call.dtype));
            let recording = Recording::new(call, self.memory, |number| trace.blocks.read(number));
            let row = self.row(&mut rows, &mut known, call, recording.as_ref().ok());
            row.file = path.display().to_string();
            row.calls += calls[at];
            row.distinct += 1;
            let done = recording.and_then(|recording| self.call(row, &recording));
            row.end(done);
        }
        rows.extend(trace.not_recorded.iter().map(|missing| self.missing(path, missing)));
        finish(&mut rows);
        rows.iter().for_each(|row| counts.add(row.status));
        progress.clear();
        self.write(&rows, out)?;
        Ok(Ok(()))
    }

    /// The row of a call, created if it is the first with this form.
    fn row<'r>(
        &self,
        rows: &'r mut Vec<Row>,
        known: &mut HashMap<Form, usize>,
        call: &TracedCall,
        recording: Option<&Recording<'_>>,
    ) -> &'r mut Row {
        let form = recording.map(Recording::form);
        let at = match form.as_ref().and_then(|form| known.get(form)) {
            Some(at) => *at,
            None => {
                let mut row = self.empty(&call.op, &call.dtype);
                if let Some(recording) = recording {
                    (row.shape, row.operands) = (recording.shape().to_vec(), recording.label());
                }
                if let Some(form) = form {
                    row.dtype.clone_from(&form.types);
                    known.insert(form, rows.len());
                }
                rows.push(row);
                rows.len() - 1
            }
        };
        &mut rows[at]
    }

    fn empty(&self, op: &str, dtype: &str) -> Row {
        Row {
            file: String::new(),
            op: op.to_owned(),
            dtype: dtype.to_owned(),
            shape: Vec::new(),
            operands: String::new(),
            backend: self.engine.name(),
            provider: None,
            calls: 0,
            distinct: 0,
            ns: None,
            total_ns: None,
            share: None,
            floor_ns: None,
            bound: None,
            checked: 0,
            nmse: None,
            limit: None,
            status: Status::Ok,
            reason: None,
        }
    }

    fn missing(&self, path: &Path, missing: &NotRecorded) -> Row {
        let NotRecorded { op, calls, reason } = missing;
        Row {
            file: path.display().to_string(),
            calls: *calls,
            status: Status::Unsupported,
            reason: Some(format!("not recorded: {reason}")),
            ..self.empty(op, "")
        }
    }

    /// Checks a call, and times it if no other call of its row was timed.
    fn call(&mut self, row: &mut Row, recording: &Recording<'_>) -> Result<(), CallError> {
        let problem = self.engine.recorded(recording)?;
        let candidates = problem.explain().candidates;
        let Some(taken) = candidates.iter().find(|candidate| candidate.taken) else {
            let reason = candidates.into_iter().next_back().map_or_else(String::new, |c| c.reason);
            return Err(CallError::Unsupported(reason));
        };
        row.provider = Some(taken.provider);
        let mut loaded = problem.load()?;
        let checked = loaded.check(CHECK_LIMIT).map_err(|error| match error {
            // It had promised to run the call.
            Error::Unsupported { .. } => {
                CallError::Malformed(format!("support was promised, but the call failed: {error}"))
            }
            other => other.into(),
        })?;
        let passed = checked.mismatch.is_none();
        row.add(checked);
        if passed && row.ns.is_none() {
            let cost = problem.cost();
            let floor = Floor::of(cost, cost.bytes, recording.runs_in(), &mut *self.ceilings);
            row.ns = Some(rounded(in_turn(std::slice::from_mut(&mut loaded), BUDGET)?));
            (row.floor_ns, row.bound) = (Some(rounded(floor.ns)), Some(floor.limit));
        }
        Ok(())
    }

    fn write(&self, rows: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
        if self.json {
            return Ok(rows.iter().try_for_each(|row| json_line(row, out))?);
        }
        Table::print(&TITLES, &rows.iter().map(cells).collect::<Vec<_>>(), out)?;
        writeln!(out)?;
        for Row { op, dtype, operands, status, reason, .. } in rows {
            if let Some(reason) = reason {
                writeln!(out, "{op} {dtype} {operands}: {status}: {reason}")?;
            }
        }
        let sum = |part: fn(&Row) -> Option<f64>| rows.iter().filter_map(part).sum::<f64>();
        let (run, floor) =
            (sum(|row| row.total_ns), sum(|row| row.floor_ns.map(|floor| floor * row.calls as f64)));
        let (calls, distinct) = rows.iter().fold((0, 0), |(c, d), row| (c + row.calls, d + row.distinct));
        let percent = if run > 0.0 { 100.0 * floor / run } else { 0.0 };
        writeln!(
            out,
            "{calls} calls, {distinct} of them distinct: {}, floor {} ({percent:.0} %); ceilings: {}",
            time(run),
            time(floor),
            self.ceilings.describe()
        )?;
        Ok(())
    }
}

impl Row {
    /// Adds the result of a comparison. Only the first mismatch is kept.
    fn add(&mut self, checked: Checked) {
        self.checked += checked.values;
        if let Some((nmse, limit)) = checked.worst
            && self.nmse.is_none_or(|worst| nmse * self.limit.unwrap_or(0.0) > worst * limit)
        {
            (self.nmse, self.limit) = (Some(nmse), Some(limit));
        }
        if let (Some(mismatch), None) = (checked.mismatch, &self.reason) {
            (self.status, self.reason) = (Status::Fail, Some(mismatch));
        }
    }

    /// Notes why a call did not run. Keeps the earlier reason unless the new one is more severe.
    fn end(&mut self, done: Result<(), CallError>) {
        let Err(error) = done else { return };
        let status = match error {
            CallError::Unsupported(_) => Status::Unsupported,
            _ => Status::Error,
        };
        if self.reason.is_none() || (self.status == Status::Unsupported && status == Status::Error) {
            (self.status, self.reason) = (status, Some(error.to_string()));
        }
    }
}

/// Computes each row's share of the run, and sorts by it.
fn finish(rows: &mut [Row]) {
    for row in &mut *rows {
        row.total_ns = row.ns.map(|ns| rounded(ns * row.calls as f64));
    }
    let run: f64 = rows.iter().filter_map(|row| row.total_ns).sum();
    for row in &mut *rows {
        row.share = row.total_ns.map(|total| rounded(100.0 * total / run.max(f64::MIN_POSITIVE)));
    }
    rows.sort_by(|a, b| b.total_ns.unwrap_or(-1.0).total_cmp(&a.total_ns.unwrap_or(-1.0)));
}

fn cells(row: &Row) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let error = match (row.nmse, row.limit) {
        (Some(nmse), Some(limit)) => format!("{nmse:.1e}/{limit:.1e}"),
        _ if row.checked > 0 => "exact".to_owned(),
        _ => "-".to_owned(),
    };
    vec![
        row.op.clone(),
        row.dtype.clone(),
        row.operands.clone(),
        row.calls.to_string(),
        or_dash(row.ns.map(time)),
        or_dash(row.share.map(|share| format!("{share:.1} %"))),
        or_dash(row.floor_ns.map(time)),
        error,
        row.status.to_string(),
    ]
}
