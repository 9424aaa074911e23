//! `ops replay`: runs golden cases and traces from files.
use crate::args::{Common, ReplayArgs};
use crate::backend::Engine;
use crate::exit::{Failure, Outcome};
use crate::output::{Progress, json_line};
use crate::units::parse_size;
use ops_command::stderr;
use ops_test::golden::{CaseResult, Golden, Status};
use ops_test::open_regular;
use ops_test::trace::is_trace;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{Read, Write};
use std::path::Path;
use trace::Replay;

mod trace;

/// Maximum value of `--memory`.
const LARGEST: usize = 1 << 40;

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
    let (memory, mut replay) = (parse_size(&args.memory, LARGEST)?, None);
    let mut progress = Progress::new(common.progress);
    for (done, path) in args.files.iter().enumerate() {
        progress.step(done, args.files.len(), &path.display().to_string());
        progress.detail(&path.display().to_string());
        let unread = if starts_as_trace(path) {
            let replay = replay.get_or_insert_with(|| Replay::new(engine, memory, common.json));
            replay.file(path, &mut counts, &mut progress, out)?.err().map(|e| e.to_string())
        } else {
            let case = Golden::load(path);
            if let Ok(case) = &case {
                let result = engine.replay(case);
                counts.add(result.status);
                progress.clear();
                write(path, &result, common.json, out)?;
            }
            case.err().map(|e| e.to_string())
        };
        if !counts.passed(args.strict) {
            ops_command::failed(1);
        }
        if unread.is_some() {
            ops_command::failed(2);
        }
        // The next case may end the process.
        out.flush()?;
        if let Some(why) = unread {
            unreadable = true;
            progress.clear();
            writeln!(stderr(), "ops: {} {why}", path.display());
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

/// Whether a file is a trace, by its name or its first bytes. A file that cannot be read does not count as
/// one.
fn starts_as_trace(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = open_regular(path).and_then(|file| file.take(64).read_to_end(&mut start));
    read.is_ok() && (is_trace(&start) || path.extension().is_some_and(|name| name == "optrace"))
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
