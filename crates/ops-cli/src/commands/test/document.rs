//! The results of a run of the suite: the content of the `--report` file.
use super::super::gpus::Gpus;
use super::super::info::Machine;
use super::MATRIX_UNITS;
use crate::exit::Failure;
use crate::output::Versioned;
use ops_core::DType;
use ops_gguf::AtomicFile;
use ops_rocm::MatrixCheck;
use ops_test::suite::{self, CaseStatus, Counts};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// All results so far.
#[derive(Serialize)]
pub(super) struct Document {
    version: &'static str,
    machine: Machine,
    /// Present for the ROCm backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    rocm: Option<Gpus>,
    backend: &'static str,
    /// Why the device could not be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// What was running when the file was written: an op, or a step before the first op. If the process died,
    /// this is the suspect.
    pub(super) running: Option<&'static str>,
    /// Whether all requested ops have run.
    pub(super) complete: bool,
    /// With `--rows`: the number of calls whose rows were computed again in a smaller call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compared: Option<usize>,
    pub(super) total: Cell,
    pub(super) ops: Vec<Row>,
    pub(super) failures: Vec<Case>,
    unsupported: Vec<Declined>,
    pub(super) timings: Vec<Timing>,
}

/// Numbers of cases by result.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Cell {
    pub(super) pass: usize,
    pub(super) fail: usize,
    pub(super) unsupported: usize,
}

/// The counts of one op in one element type.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) op: String,
    pub(super) dtype: &'static str,
    #[serde(flatten)]
    pub(super) counts: Cell,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Case {
    op: String,
    dtype: &'static str,
    pub(super) case: String,
    pub(super) message: String,
}

#[derive(Clone, Debug, Serialize)]
struct Declined {
    op: String,
    dtype: &'static str,
    reason: String,
    count: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Timing {
    pub(super) op: &'static str,
    pub(super) seconds: f64,
}

impl From<Counts> for Cell {
    fn from(Counts { pass, fail, unsupported }: Counts) -> Self {
        Cell { pass, fail, unsupported }
    }
}

impl Document {
    pub(super) fn new(backend: &'static str) -> Self {
        Document {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::here(),
            rocm: None,
            backend,
            error: None,
            running: None,
            complete: false,
            compared: None,
            total: Cell::default(),
            ops: Vec::new(),
            failures: Vec::new(),
            unsupported: Vec::new(),
            timings: Vec::new(),
        }
    }

    /// Adds the machine's libraries and GPUs for the ROCm backend.
    pub(super) fn add_gpus(&mut self, gpus: Gpus) {
        self.rocm = Some(gpus);
    }

    /// Adds a failed case of an op that is not one of the suite's.
    pub(super) fn add_failure(&mut self, op: &str, case: &str, message: String) {
        self.total.fail += 1;
        let (op, case) = (op.to_owned(), case.to_owned());
        self.failures.push(Case { op, dtype: "any", case, message });
    }

    /// Adds the checks of matrix instructions as cases of an op called `matrix_units`.
    pub(super) fn add_units(&mut self, checks: Vec<MatrixCheck>) {
        for MatrixCheck { instruction, dtype, wrong } in checks {
            let fail = usize::from(wrong.is_some());
            let counts = Cell { pass: 1 - fail, fail, unsupported: 0 };
            self.total.pass += counts.pass;
            self.total.fail += fail;
            let op = MATRIX_UNITS.to_owned();
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

    pub(super) fn add(&mut self, report: &suite::Report) {
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

    /// Writes the results so far, if there is a file to write them to. Called before each op, since a GPU fault may end the
    /// process.
    pub(super) fn save(&self, path: Option<&Path>) -> Result<(), Failure> {
        let Some(path) = path else { return Ok(()) };
        let mut text = serde_json::to_vec_pretty(&Versioned::new(self))
            .map_err(|e| Failure::Write(path.display().to_string(), e.into()))?;
        text.push(b'\n');
        AtomicFile::save(path, &text).map_err(|e| Failure::Usage(e.to_string()))
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [(self.pass, ""), (self.fail, "!"), (self.unsupported, "?")];
        let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, mark)| format!("{n}{mark}"));
        f.write_str(&parts.collect::<Vec<_>>().join(" "))
    }
}
