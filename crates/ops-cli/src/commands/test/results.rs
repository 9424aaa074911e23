//! Writes results as they arrive, so that they are not lost if the process dies.
use super::{Cell, Document, MATRIX_UNITS, json_line};
use crate::catalogue::{Entry, columns};
use crate::exit::Failure;
use crate::output::Table;
use ops_core::DType;
use std::io::Write;

/// How much of a [`Document`] has been written.
pub(super) struct Results {
    json: bool,
    /// The element types that have a column.
    dtypes: Vec<&'static str>,
    table: Table,
    rows: usize,
    failures: usize,
}

impl Results {
    /// Starts output for these ops; `op` is the only one requested, if there is one.
    pub(super) fn new(json: bool, op: Option<&str>, chosen: &[Entry]) -> Self {
        let of_units =
            |dtype| op == Some(MATRIX_UNITS) && [DType::F16, DType::BF16, DType::I8].contains(&dtype);
        let used = |dtype: &DType| {
            of_units(*dtype) || chosen.iter().any(|entry| entry.runs_in.members().contains(dtype))
        };
        let dtypes: Vec<&'static str> = columns().filter(used).map(|dtype| dtype.name()).collect();
        let titles: Vec<&'static str> = std::iter::once("op").chain(dtypes.iter().copied()).collect();
        let mut table = Table::new(&titles);
        // The counts are not known yet: three digits usually suffice.
        let longest =
            chosen.iter().map(|entry| entry.name).chain([MATRIX_UNITS]).max_by_key(|name| name.len());
        let widest: Vec<&str> = longest.into_iter().chain(dtypes.iter().map(|_| "000 0?")).collect();
        table.fit(&widest);
        Results { json, dtypes, table, rows: 0, failures: 0 }
    }

    /// Writes what was added to the document since the last call.
    pub(super) fn write(&mut self, document: &Document, out: &mut dyn Write) -> Result<(), Failure> {
        let (rows, failures) = (&document.ops[self.rows..], &document.failures[self.failures..]);
        if self.json {
            rows.iter().try_for_each(|row| json_line(row, out))?;
            failures.iter().try_for_each(|case| json_line(case, out))?;
        } else {
            if self.rows == 0 && !rows.is_empty() {
                writeln!(out, "{}", self.table.head())?;
            }
            for rows in rows.chunk_by(|one, next| one.op == next.op) {
                let mut line = vec![rows[0].op.clone()];
                line.extend(self.dtypes.iter().map(|_| String::new()));
                let mut others = String::new();
                for row in rows {
                    match self.dtypes.iter().position(|dtype| *dtype == row.dtype) {
                        Some(at) => line[at + 1] = row.counts.to_string(),
                        None => others += &format!("  {} {}", row.dtype, row.counts),
                    }
                }
                writeln!(out, "{}{others}", self.table.line(&line))?;
            }
            for case in failures {
                writeln!(out, "FAILED {}: {}", case.case, case.message)?;
            }
        }
        (self.rows, self.failures) = (document.ops.len(), document.failures.len());
        Ok(out.flush()?)
    }

    /// Writes the counts of all cases.
    pub(super) fn end(&self, document: &Document, out: &mut dyn Write) -> Result<(), Failure> {
        if self.json {
            return Ok(json_line(&document.total, out)?);
        }
        let Cell { pass, fail, unsupported } = document.total;
        if !document.ops.is_empty() {
            writeln!(out, "\nEach cell: passed, failed!, unsupported?")?;
        }
        if let Some(compared) = document.compared {
            writeln!(out, "{compared} calls with fewer rows were compared")?;
        }
        Ok(writeln!(out, "{pass} pass, {fail} fail, {unsupported} unsupported")?)
    }
}
