//! `ops tune`: measures tuning values, or the providers of a trace's calls, on this machine's GPU and stores what is faster.
use crate::args::{Choice, Common, TuneArgs};
use crate::exit::{Failure, Outcome};
use crate::output::{Table, json_line};
use crate::timing::median_ns;
use ops_command::stderr;
use ops_rocm::{KNOBS, Knob, Policy, Rocm, Tuning};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

mod problems;
mod providers;

/// A new value must reduce the present value's time at least to this ratio; smaller gains are noise.
const MAX_TIME_RATIO: f64 = 0.97;

#[derive(Serialize)]
struct Line<'a> {
    knob: &'a str,
    op: &'a str,
    what: &'a str,
    before: u32,
    before_ns: f64,
    after: u32,
    after_ns: f64,
    measured: Vec<Measured>,
    device: &'a str,
    stored: Option<&'a str>,
}

#[derive(Clone, Copy, Serialize)]
struct Measured {
    value: u32,
    ns: f64,
}

/// A knob with its present and its best value.
struct Finding {
    knob: &'static Knob,
    before: Measured,
    after: Measured,
    measured: Vec<Measured>,
}

pub(super) fn run(common: Common, args: &TuneArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if common.backend != Choice::Rocm {
        return Err(Failure::Usage("only GPUs are tuned: add --backend rocm".into()));
    }
    let knobs = if args.trace.is_empty() { knobs_of(args.op.as_deref())? } else { Vec::new() };
    let rocm = Rocm::new().map_err(|error| Failure::Usage(error.to_string()))?;
    let info = rocm.device().info();
    let device = format!("{} ({})", info.name, info.gfx);
    if !common.json {
        writeln!(out, "{device}, {} compute units", info.compute_units)?;
    }
    check_matrix_units(&rocm)?;
    if !args.trace.is_empty() {
        providers::run(&rocm, args, common.json, common.progress, out)?;
        return Ok(Outcome::Fine);
    }
    let mut best = *rocm.tuning();
    let mut findings = Vec::new();
    for (knob, number) in knobs.iter().zip(1..) {
        if common.progress || !common.json {
            writeln!(stderr(), "ops: [{number}/{}] {} ({})", knobs.len(), knob.name, knob.op);
        }
        let finding = best_value(&rocm, knob, &best, Duration::from_millis(args.budget_ms))?;
        best.set(knob.name, finding.after.value);
        findings.push(finding);
    }
    let changed = best != *rocm.tuning();
    let stored = if changed && !args.dry_run {
        Some(rocm.keep_tuning(&best).map_err(Failure::Op)?.display().to_string())
    } else {
        None
    };
    if common.json {
        print_json(findings, &device, stored.as_deref(), out)?;
    } else {
        print_table(&findings, out)?;
        match stored {
            Some(path) => writeln!(out, "stored in {path}: programs started from now on use it")?,
            None if changed => writeln!(out, "not stored (--dry-run)")?,
            None => writeln!(out, "nothing is worth changing, so nothing is stored")?,
        }
    }
    Ok(Outcome::Fine)
}

/// The knobs of an op, or all knobs.
fn knobs_of(op: Option<&str>) -> Result<Vec<&'static Knob>, Failure> {
    let knobs: Vec<&Knob> = KNOBS.iter().filter(|knob| op.is_none_or(|op| op == knob.op)).collect();
    if knobs.is_empty() {
        let mut ops: Vec<&str> = KNOBS.iter().map(|knob| knob.op).collect();
        ops.dedup();
        return Err(Failure::Usage(format!(
            "nothing to tune for this op; ops with values to tune: {}",
            ops.join(", ")
        )));
    }
    Ok(knobs)
}

fn print_json(
    findings: Vec<Finding>,
    device: &str,
    stored: Option<&str>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    for Finding { knob, before, after, measured } in findings {
        let line = Line {
            knob: knob.name,
            op: knob.op,
            what: knob.what,
            before: before.value,
            before_ns: before.ns,
            after: after.value,
            after_ns: after.ns,
            measured,
            device,
            stored,
        };
        json_line(&line, out)?;
    }
    Ok(())
}

fn print_table(findings: &[Finding], out: &mut dyn Write) -> Result<(), Failure> {
    let us = |ns: f64| format!("{:.1}", ns / 1000.0);
    let row = |Finding { knob, before, after, .. }: &Finding| {
        let gain = (before.ns / after.ns - 1.0) * 100.0;
        let verdict = if before.value == after.value { "kept".into() } else { format!("{gain:.0} % faster") };
        let (old, new) = (before.value.to_string(), after.value.to_string());
        vec![knob.name.to_owned(), knob.op.to_owned(), old, us(before.ns), new, us(after.ns), verdict]
    };
    let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
    Table::print(&["value", "op", ">before", ">us", ">after", ">us", ""], &rows, out)?;
    Ok(())
}

/// Fails if a matrix instruction computes wrong results: timing its kernels would be pointless.
fn check_matrix_units(rocm: &Rocm) -> Result<(), Failure> {
    for check in rocm.check_matrix_units().map_err(Failure::Op)? {
        if let Some(wrong) = check.wrong {
            let status = format!("{} is wrong on this device: {wrong}; please report it", check.instruction);
            return Err(Failure::Op(ops_core::Error::Device {
                backend: "rocm",
                call: "checking matrix units",
                status,
            }));
        }
    }
    Ok(())
}

/// The best value of a knob, with `tuning`'s values for all others.
fn best_value(
    rocm: &Rocm,
    knob: &'static Knob,
    tuning: &Tuning,
    budget: Duration,
) -> Result<Finding, Failure> {
    let now = tuning.get(knob.name).unwrap_or(knob.value);
    let measured = measure(rocm, knob, tuning, now, budget).map_err(Failure::Op)?;
    let unknown = Measured { value: now, ns: f64::INFINITY };
    let before = measured.iter().find(|m| m.value == now).copied().unwrap_or(unknown);
    let fastest = measured.iter().min_by(|a, b| a.ns.total_cmp(&b.ns)).copied().unwrap_or(before);
    let after = if fastest.ns < before.ns * MAX_TIME_RATIO { fastest } else { before };
    Ok(Finding { knob, before, after, measured })
}

/// The time of a knob's problem for each of its candidates and for the present value.
fn measure(
    rocm: &Rocm,
    knob: &Knob,
    tuning: &Tuning,
    now: u32,
    budget: Duration,
) -> ops_core::Result<Vec<Measured>> {
    let mut values: Vec<u32> = knob.candidates.to_vec();
    if !values.contains(&now) {
        values.push(now);
    }
    let scale = scale_for(rocm, knob, budget)?;
    let time = |value: u32| -> ops_core::Result<Measured> {
        let mut with = *tuning;
        with.set(knob.name, value);
        let call = problems::of(&hip_queue(rocm, with)?, knob.op, scale)?;
        Ok(Measured { value, ns: median_ns(budget / 2, call)? })
    };
    // Two passes over all values, and the better time of each: a disturbance then slows one pass, not all of one value's times.
    let mut best: Vec<Measured> = Vec::with_capacity(values.len());
    for pass in 0..2 {
        for (at, value) in values.iter().enumerate() {
            let now = time(*value)?;
            match best.get_mut(at).filter(|_| pass > 0) {
                Some(before) if now.ns < before.ns => *before = now,
                Some(_) => {}
                None => best.push(now),
            }
        }
    }
    Ok(best)
}

/// A queue on the same device that runs matrix products by this project's kernels, with these tuning values.
fn hip_queue(rocm: &Rocm, tuning: Tuning) -> ops_core::Result<Rocm> {
    let policy = ["matmul", "linear"].into_iter().fold(Policy::new(), |p, op| p.order(op, ["hip"]));
    Rocm::builder().device(rocm.device().clone()).policy(policy).tuning(tuning).build()
}

/// The scale at which one call takes more than a sixteenth of the budget, or the largest.
fn scale_for(rocm: &Rocm, knob: &Knob, budget: Duration) -> ops_core::Result<u32> {
    const LARGEST: u32 = 6;
    let rocm = hip_queue(rocm, *rocm.tuning())?;
    for scale in 0..LARGEST {
        let mut call = problems::of(&rocm, knob.op, scale)?;
        call()?;
        let begin = Instant::now();
        call()?;
        if begin.elapsed() * 16 > budget {
            return Ok(scale);
        }
    }
    Ok(LARGEST)
}
