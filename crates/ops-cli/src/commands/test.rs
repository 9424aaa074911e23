//! `ops test`: runs the suite that every backend must pass.
use super::gpus::Gpus;
use crate::args::{Choice, Common, TestArgs};
use crate::backend::Engine;
use crate::catalogue::{Entry, entries, find_op};
use crate::exit::{Failure, Outcome};
use crate::output::{Progress, json_line};
use document::{Cell, Document, Timing};
use ops_command::stderr;
use ops_test::suite::Filter;
use results::Results;
use std::io::Write;
use std::time::Instant;

mod document;
mod results;

/// The name for requesting and reporting the checks of matrix instructions.
const MATRIX_UNITS: &str = "matrix_units";

/// Ops that use matrix instructions, so their test checks these too.
const MATRIX_OPS: [&str; 8] =
    ["matmul", "linear", "attention", "attention_varlen", "attention_paged", "qlinear", "conv1d", "conv2d"];

/// Runs the suite. Opens the backend here, because a report is most useful when the device cannot be opened.
pub(super) fn run(
    open: impl FnOnce() -> Result<Box<dyn Engine>, Failure>,
    common: Common,
    args: &TestArgs,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    // Detect a wrong name or an unwritable report before the long run.
    let chosen = match args.op.as_deref() {
        Some(MATRIX_UNITS) if args.rows => {
            return Err(Failure::Usage(format!(
                "{MATRIX_UNITS} is not an op, so --rows does not apply to it"
            )));
        }
        Some(MATRIX_UNITS) => &[],
        Some(name) => std::slice::from_ref(find_op(name)?),
        None => entries(),
    };
    let report = args.report.as_deref();
    let mut document = Document::new(common.backend.name());
    if common.backend == Choice::Rocm {
        // Opening the libraries may end the process.
        document.running = Some("looking for ROCm");
        document.save(report)?;
        document.add_gpus(Gpus::here());
    }
    document.running = Some("opening the device");
    document.save(report)?;
    let engine = match open() {
        Ok(engine) => engine,
        Err(failure) => {
            document.error = Some(failure.to_string());
            document.running = None;
            document.save(report)?;
            return Err(failure);
        }
    };
    let mut results = Results::new(common.json, args.op.as_deref(), chosen);
    let units =
        !args.rows && args.op.as_deref().is_none_or(|op| op == MATRIX_UNITS || MATRIX_OPS.contains(&op));
    if units {
        document.running = Some(MATRIX_UNITS);
        document.save(report)?;
        check_matrix_units(&*engine, args, &mut document);
        results.write(&document, out)?;
    }
    run_suite(&*engine, common, args, chosen, &mut document, |document| results.write(document, out))?;
    (document.running, document.complete) = (None, true);
    document.save(report)?;
    results.end(&document, out)?;
    Ok(Outcome::of(document.total.fail == 0))
}

/// Checks the matrix instructions. A check that cannot run counts as a failure, like a wrong product.
fn check_matrix_units(engine: &dyn Engine, args: &TestArgs, document: &mut Document) {
    match engine.matrix_units() {
        Ok(checks) => {
            if checks.is_empty() && args.op.as_deref() == Some(MATRIX_UNITS) {
                writeln!(stderr(), "ops: {} has no matrix units that its kernels use", engine.name());
            }
            document.add_units(checks);
        }
        Err(failure) => document.add_failure(MATRIX_UNITS, "matrix_units", failure.to_string()),
    }
}

/// Runs the cases of these ops. `each` is called after every op.
fn run_suite(
    engine: &dyn Engine,
    common: Common,
    args: &TestArgs,
    chosen: &[Entry],
    document: &mut Document,
    mut each: impl FnMut(&Document) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut progress = Progress::new(common.progress);
    // An op's cases include those of its in-place form, which therefore runs separately only on request.
    let runs_alone = |name: &str| args.op.is_some() || !name.ends_with("_inplace");
    for (done, entry) in chosen.iter().enumerate().filter(|(_, e)| runs_alone(e.name)) {
        progress.step(done, chosen.len(), entry.name);
        document.running = Some(entry.name);
        document.save(args.report.as_deref())?;
        let start = Instant::now();
        let filter = Filter { one_case_in: args.quick.then_some(8), ..Filter::op(entry.name) };
        let mut before = |case: &str| progress.detail(case);
        if args.rows {
            let rows = engine.rows(&filter, &mut before);
            document.add(&rows.report);
            *document.compared.get_or_insert(0) += rows.compared.values().sum::<usize>();
        } else {
            document.add(&engine.suite(&filter, &mut before));
        }
        document.timings.push(Timing { op: entry.name, seconds: start.elapsed().as_secs_f64() });
        progress.clear();
        if document.total.fail > 0 {
            ops_command::failed(1);
        }
        each(document)?;
    }
    progress.clear();
    Ok(())
}
