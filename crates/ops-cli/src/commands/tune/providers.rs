//! Measures the providers of the calls in traces, and keeps the order that won.
use crate::args::TuneArgs;
use crate::backend::{Engine, with_policy};
use crate::bench::{CHECK_LIMIT, in_turn};
use crate::exit::Failure;
use crate::output::{Progress, Table, json_line};
use crate::problem::Recording;
use chrono::{DateTime, Utc};
use ops_command::stderr;
use ops_rocm::{Measurement, Policy, Rocm};
use ops_test::trace::{Trace, TracedCall};
use serde::Serialize;
use std::collections::HashSet;
use std::io::Write;
use std::time::{Duration, SystemTime};

/// The providers that are compared.
const PROVIDERS: [&str; 4] = ["hip", "hipblaslt", "rocblas", "miopen"];

/// Maximum number of bytes for the operands of a call.
const MEMORY: usize = 4 << 30;

#[derive(Serialize)]
struct Line<'a> {
    op: &'a str,
    class: &'a str,
    ns: Vec<(&'a str, f64)>,
    device: &'a str,
    stored: bool,
}

/// What the calls of one class took, and the providers whose results were wrong.
struct Finding {
    measured: Measurement,
    wrong: Vec<String>,
}

/// Measures every class of calls once, and stores the orders of those that more than one provider computes.
pub(super) fn run(
    rocm: &Rocm,
    args: &TuneArgs,
    json: bool,
    progress: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let engines = PROVIDERS.map(|provider| {
        let rocm = Rocm::builder()
            .device(rocm.device().clone())
            .policy(Policy::new().order("*", [provider]))
            .build();
        rocm.map(|rocm| (provider, with_policy(rocm)))
    });
    let engines: Vec<_> = engines.into_iter().collect::<Result<_, _>>().map_err(Failure::Op)?;
    let budget = Duration::from_millis(args.budget_ms) / 4;
    let date = date(SystemTime::now());
    let (mut progress, mut seen, mut findings) = (Progress::new(progress), HashSet::new(), Vec::new());
    for file in &args.trace {
        let unreadable =
            |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", file.display()));
        let mut trace = Trace::open(file).map_err(|error| unreadable(&error))?;
        let calls = trace.calls.len();
        for (at, call) in trace.calls.iter().enumerate() {
            progress.step(at, calls, &format!("{} {}", call.op, call.dtype));
            let Ok(recording) = Recording::new(call, MEMORY, |number| trace.blocks.read(number)) else {
                continue;
            };
            if args.op.as_ref().is_none_or(|op| *op == call.op) && seen.insert(recording.form()) {
                findings.extend(measure(&engines, call, &recording, budget, &date, &findings)?);
            }
        }
    }
    progress.clear();
    write(&findings, rocm, args, json, out)
}

/// The times of all providers that compute this call, unless a call of its class is among `findings`.
fn measure(
    engines: &[(&'static str, Box<dyn Engine>)],
    call: &TracedCall,
    recording: &Recording<'_>,
    budget: Duration,
    date: &str,
    findings: &[Finding],
) -> Result<Option<Finding>, Failure> {
    let (mut times, mut wrong, mut class) = (Vec::new(), Vec::new(), String::new());
    for (provider, engine) in engines {
        let Ok(problem) = engine.recorded(recording) else { continue };
        let Some(taken) = problem.explain().candidates.into_iter().find(|candidate| candidate.taken) else {
            continue;
        };
        class = taken.class.unwrap_or_default();
        if findings.iter().any(|known| known.measured.op == call.op && known.measured.class == class) {
            return Ok(None);
        }
        let mut running = problem.load().map_err(Failure::Op)?;
        match running.check(CHECK_LIMIT) {
            Ok(checked) if checked.mismatch.is_none() => {
                let ns = in_turn(std::slice::from_mut(&mut running), budget).map_err(Failure::Op)?;
                times.push(((*provider).to_owned(), ns));
            }
            Ok(checked) => wrong.push(format!("{provider}: {}", checked.mismatch.unwrap_or_default())),
            Err(error) => wrong.push(format!("{provider}: {error}")),
        }
    }
    times.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let measured = Measurement { op: call.op.clone(), class, date: date.to_owned(), times };
    let is_choice = measured.times.len() > 1 || !wrong.is_empty();
    Ok(is_choice.then_some(Finding { measured, wrong }))
}

fn write(
    findings: &[Finding],
    rocm: &Rocm,
    args: &TuneArgs,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    for wrong in findings.iter().flat_map(|finding| &finding.wrong) {
        ops_command::failed(1);
        writeln!(stderr(), "ops: not used, because its result is wrong: {wrong}; please report it");
    }
    let info = rocm.device().info();
    let device = format!("{} ({})", info.name, info.gfx);
    let rows = || findings.iter().map(|finding| &finding.measured).filter(|row| !row.times.is_empty());
    if json {
        for Measurement { op, class, times, .. } in rows() {
            let ns = times.iter().map(|(id, ns)| (id.as_str(), *ns)).collect();
            json_line(&Line { op, class, ns, device: &device, stored: !args.dry_run }, out)?;
        }
    } else {
        let cells = |row: &Measurement| {
            let times: Vec<String> =
                row.times.iter().map(|(id, ns)| format!("{id} {:.1} µs", ns / 1e3)).collect();
            vec![row.op.clone(), row.class.clone(), times.join(", ")]
        };
        Table::print(&["op", "class", "fastest first"], &rows().map(cells).collect::<Vec<_>>(), out)?;
    }
    if args.dry_run || rows().next().is_none() {
        return Ok(());
    }
    let path = rocm.keep_measurements(rows().cloned()).map_err(Failure::Op)?;
    if !json {
        writeln!(out, "stored in {}: programs started from now on use it", path.display())?;
    }
    Ok(())
}

/// The date in UTC, such as `2026-11-30`.
fn date(at: SystemTime) -> String {
    DateTime::<Utc>::from(at).format("%F").to_string()
}

#[cfg(test)]
mod tests {
    use super::date;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn days_have_dates() {
        let dates = [0, 58, 59, 789, 11_016, 20_785];
        assert_eq!(
            dates.map(|days| date(UNIX_EPOCH + Duration::from_secs(days * 86_400))),
            ["1970-01-01", "1970-02-28", "1970-03-01", "1972-02-29", "2000-02-29", "2026-11-28"]
        );
    }
}
