//! `ops replay`: runs golden cases from files.
use crate::args::{Common, ReplayArgs};
use crate::backend::Engine;
use crate::exit::{Failure, Outcome};
use crate::output::{Progress, json_line};
use ops_test::golden::{CaseResult, Golden, Status};
use serde::Serialize;
use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

#[derive(Serialize)]
struct Line<'a> {
    file: Cow<'a, str>,
    op: &'a str,
    dtype: &'a str,
    shape: &'a [usize],
    status: String,
    nmse: Option<f64>,
    limit: Option<f64>,
    reason: Option<&'a str>,
}

#[derive(Default, Serialize)]
struct Counts {
    ok: usize,
    fail: usize,
    unsupported: usize,
    error: usize,
}

impl Counts {
    fn add(&mut self, status: Status) {
        *match status {
            Status::Ok => &mut self.ok,
            Status::Fail => &mut self.fail,
            Status::Unsupported => &mut self.unsupported,
            Status::Error => &mut self.error,
        } += 1;
    }
    fn passed(&self, strict: bool) -> bool {
        self.fail == 0 && self.error == 0 && (self.unsupported == 0 || !strict)
    }
}

pub(super) fn run(
    engine: &dyn Engine,
    common: Common,
    args: &ReplayArgs,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let (mut counts, mut unreadable) = (Counts::default(), false);
    let mut progress = Progress::new(common.progress);
    for (done, path) in args.files.iter().enumerate() {
        progress.step(done, args.files.len(), &path.display().to_string());
        progress.detail(&path.display().to_string());
        match Golden::load(path) {
            Ok(case) => {
                let result = engine.replay(&case);
                counts.add(result.status);
                progress.clear();
                write(path, &result, common.json, out)?;
                // The next case may end the process.
                out.flush()?;
            }
            Err(e) => {
                unreadable = true;
                progress.clear();
                eprintln!("ops: {} {e}", path.display());
            }
        }
    }
    progress.clear();
    if common.json {
        json_line(&counts, out)?;
    } else {
        let Counts { ok, fail, unsupported, error } = counts;
        writeln!(out, "{ok} ok, {fail} fail, {unsupported} unsupported, {error} error")?;
    }
    Ok(if unreadable { Outcome::Unreadable } else { Outcome::of(counts.passed(args.strict)) })
}

fn write(path: &Path, result: &CaseResult, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if !json {
        return Ok(writeln!(out, "{result}")?);
    }
    let CaseResult { op, dtype, shape, status, nmse, limit, reason } = result;
    let line = Line {
        file: path.to_string_lossy(),
        op,
        dtype,
        shape,
        status: status.to_string(),
        nmse: *nmse,
        limit: *limit,
        reason: reason.as_deref(),
    };
    Ok(json_line(&line, out)?)
}
