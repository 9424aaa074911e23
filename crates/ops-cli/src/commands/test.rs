//! `ops test`: runs the suite that every backend must pass.
use super::gpus::Gpus;
use super::info::Machine;
use crate::args::{Common, TestArgs};
use crate::backend::Engine;
use crate::catalogue::{columns, entries, find_op};
use crate::exit::{Failure, Outcome};
use crate::output::{Progress, Table, json_line};
use ops_core::DType;
use ops_rocm::MatrixCheck;
use ops_test::suite::{self, CaseStatus, Counts, Filter};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

/// All results: the content of the `--report` file.
#[derive(Serialize)]
struct Document {
    version: &'static str,
    machine: Machine,
    /// Present for the ROCm backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    rocm: Option<Gpus>,
    backend: &'static str,
    /// The op whose cases were running when the file was written. If the process died, this op is the one to blame.
    running: Option<&'static str>,
    /// Whether all requested ops have run.
    complete: bool,
    total: Cell,
    ops: Vec<Row>,
    failures: Vec<Case>,
    unsupported: Vec<Declined>,
    timings: Vec<Timing>,
}

/// Numbers of cases by result.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Cell {
    pass: usize,
    fail: usize,
    unsupported: usize,
}

/// The counts of one op in one element type.
#[derive(Clone, Debug, Serialize)]
struct Row {
    op: String,
    dtype: &'static str,
    #[serde(flatten)]
    counts: Cell,
}

#[derive(Clone, Debug, Serialize)]
struct Case {
    op: String,
    dtype: &'static str,
    case: String,
    message: String,
}

#[derive(Clone, Debug, Serialize)]
struct Declined {
    op: String,
    dtype: &'static str,
    reason: String,
    count: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Timing {
    op: &'static str,
    seconds: f64,
}

impl From<Counts> for Cell {
    fn from(Counts { pass, fail, unsupported }: Counts) -> Self {
        Cell { pass, fail, unsupported }
    }
}

/// Ops that use matrix instructions, so their test checks these too.
const MATRIX_OPS: [&str; 4] = ["matmul", "linear", "attention", "qlinear"];

pub(super) fn run(
    engine: &dyn Engine,
    common: Common,
    args: &TestArgs,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    // Find a wrong name or an unwritable report before the long run.
    let chosen = match &args.op {
        Some(name) => std::slice::from_ref(find_op(name)?),
        None => entries(),
    };
    let mut document = Document::new(engine.name());
    document.save(args.report.as_deref())?;
    let mut progress = Progress::new(common.progress);
    if args.op.as_deref().is_none_or(|op| MATRIX_OPS.contains(&op)) {
        document.add_units(engine.matrix_units()?);
    }
    // An op's cases include those of its in-place form, so that form runs alone only if it was asked for.
    let runs_alone = |name: &str| args.op.is_some() || !name.ends_with("_inplace");
    for (done, entry) in chosen.iter().enumerate().filter(|(_, e)| runs_alone(e.name)) {
        progress.step(done, chosen.len(), entry.name);
        document.running = Some(entry.name);
        document.save(args.report.as_deref())?;
        let start = Instant::now();
        document.add(&engine.suite(&Filter::op(entry.name)));
        document.timings.push(Timing { op: entry.name, seconds: start.elapsed().as_secs_f64() });
    }
    progress.clear();
    (document.running, document.complete) = (None, true);
    document.save(args.report.as_deref())?;

    if common.json {
        document.ops.iter().try_for_each(|row| json_line(row, out))?;
        document.failures.iter().try_for_each(|case| json_line(case, out))?;
        json_line(&document.total, out)?;
    } else {
        document.write(out)?;
    }
    Ok(Outcome::of(document.total.fail == 0))
}

impl Document {
    fn new(backend: &'static str) -> Self {
        Document {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::here(),
            rocm: (backend == "rocm").then(Gpus::here),
            backend,
            running: None,
            complete: false,
            total: Cell::default(),
            ops: Vec::new(),
            failures: Vec::new(),
            unsupported: Vec::new(),
            timings: Vec::new(),
        }
    }

    /// Adds the checks of matrix instructions as cases of an op called `matrix_units`.
    fn add_units(&mut self, checks: Vec<MatrixCheck>) {
        for MatrixCheck { instruction, dtype, wrong } in checks {
            let fail = usize::from(wrong.is_some());
            let counts = Cell { pass: 1 - fail, fail, unsupported: 0 };
            self.total.pass += counts.pass;
            self.total.fail += fail;
            let op = "matrix_units".to_owned();
            if let Some(message) = wrong {
                self.failures.push(Case { op: op.clone(), dtype, case: instruction, message });
            }
            match self.ops.iter_mut().find(|row| row.op == op && row.dtype == dtype) {
                Some(row) => {
                    row.counts.pass += counts.pass;
                    row.counts.fail += fail;
                }
                None => self.ops.push(Row { op, dtype, counts }),
            }
        }
    }

    fn add(&mut self, report: &suite::Report) {
        let Cell { pass, fail, unsupported } = report.total().into();
        self.total.pass += pass;
        self.total.fail += fail;
        self.total.unsupported += unsupported;
        for (op, cells) in report.table().rows {
            let row = |(dtype, counts): (DType, Counts)| Row {
                op: op.clone(),
                dtype: dtype.name(),
                counts: counts.into(),
            };
            self.ops.extend(cells.into_iter().map(row));
        }
        let mut declined: BTreeMap<(String, &'static str, String), usize> = BTreeMap::new();
        for o in &report.outcomes {
            let (op, dtype, case) = (o.op.clone(), o.dtype.name(), o.case.clone());
            match &o.status {
                CaseStatus::Pass => {}
                CaseStatus::Fail(message) => {
                    self.failures.push(Case { op, dtype, case, message: message.clone() });
                }
                CaseStatus::Unsupported(reason) => {
                    *declined.entry((op, dtype, reason.clone())).or_default() += 1
                }
            }
        }
        let declined = declined.into_iter();
        self.unsupported.extend(declined.map(|((op, dtype, reason), count)| Declined {
            op,
            dtype,
            reason,
            count,
        }));
    }

    /// Writes the table, the failures and the counts.
    fn write(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let dtypes: Vec<_> =
            columns().map(|d| d.name()).filter(|d| self.ops.iter().any(|row| row.dtype == *d)).collect();
        let mut rows: Vec<Vec<String>> = Vec::new();
        for row in &self.ops {
            if rows.last().is_none_or(|last| last[0] != row.op) {
                rows.push(
                    std::iter::once(row.op.clone()).chain(dtypes.iter().map(|_| String::new())).collect(),
                );
            }
            if let (Some(last), Some(at)) = (rows.last_mut(), dtypes.iter().position(|d| *d == row.dtype)) {
                last[at + 1] = row.counts.to_string();
            }
        }
        let titles: Vec<&'static str> = std::iter::once("op").chain(dtypes).collect();
        Table::print(&titles, &rows, out)?;
        writeln!(out, "\nEach cell: passed, failed!, unsupported?")?;
        for Case { case, message, .. } in &self.failures {
            writeln!(out, "FAILED {case}: {message}")?;
        }
        let Cell { pass, fail, unsupported } = self.total;
        Ok(writeln!(out, "{pass} pass, {fail} fail, {unsupported} unsupported")?)
    }

    /// Writes the results so far. Called before each op, since a GPU fault may end the process.
    fn save(&self, path: Option<&Path>) -> Result<(), Failure> {
        let Some(path) = path else { return Ok(()) };
        let write = || {
            let mut file = BufWriter::new(File::create(path)?);
            serde_json::to_writer_pretty(&mut file, self)?;
            writeln!(file)?;
            file.flush()
        };
        write().map_err(|e| Failure::Write(path.display().to_string(), e))
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [(self.pass, ""), (self.fail, "!"), (self.unsupported, "?")];
        let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, mark)| format!("{n}{mark}"));
        f.write_str(&parts.collect::<Vec<_>>().join(" "))
    }
}
