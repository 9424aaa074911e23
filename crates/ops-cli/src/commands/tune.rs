//! `ops tune`: measures what launches depend on, on the GPU at hand, and keeps what is faster.
use crate::args::{Common, TuneArgs};
use crate::backend::Choice;
use crate::bench::median_ns;
use crate::exit::{Failure, Outcome};
use crate::output::{Table, json_line};
use ops_core::ops::{
    Attention, AttentionOps, ElementwiseOps, LinearOps, MatMulOps, NormOps, QuantOps, RmsNorm,
};
use ops_core::quant::{Block, BlockQ8_0};
use ops_core::{Backend, Result, f16};
use ops_rocm::{KNOBS, Knob, Policy, Rocm, Tuning};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Another value is kept if it is faster by this factor: less is noise.
const WORTH: f64 = 0.97;

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
    stored: Option<String>,
}

#[derive(Clone, Copy, Serialize)]
struct Measured {
    value: u32,
    ns: f64,
}

pub(super) fn run(common: Common, args: &TuneArgs, out: &mut dyn Write) -> Outcomes {
    if common.backend != Choice::Rocm {
        return Err(Failure::Usage("only GPUs are tuned: add --backend rocm".into()));
    }
    let wanted = |knob: &&Knob| args.op.as_deref().is_none_or(|op| op == knob.op);
    let knobs: Vec<&Knob> = KNOBS.iter().filter(wanted).collect();
    if knobs.is_empty() {
        let mut ops: Vec<&str> = KNOBS.iter().map(|knob| knob.op).collect();
        ops.dedup();
        return Err(Failure::Usage(format!("nothing to tune there; there are {}", ops.join(", "))));
    }
    let rocm = Rocm::new().map_err(|error| Failure::Usage(error.to_string()))?;
    let info = rocm.device().info();
    let device = format!("{} ({})", info.name, info.gfx);
    if !common.json {
        writeln!(out, "{device}, {} compute units", info.compute_units)?;
    }
    check_matrix_units(&rocm)?;
    let mut best = *rocm.tuning();
    let mut found = Vec::new();
    for (knob, number) in knobs.iter().zip(1..) {
        if common.progress || !common.json {
            eprintln!("ops: [{number}/{}] {} ({})", knobs.len(), knob.name, knob.op);
        }
        let measured = measure(&rocm, knob, &best, Duration::from_millis(args.budget_ms))?;
        let before = best.get(knob.name).unwrap_or(knob.value);
        let ns_of = |value| measured.iter().find(|m| m.value == value).map_or(f64::INFINITY, |m| m.ns);
        let fastest = measured.iter().min_by(|a, b| a.ns.total_cmp(&b.ns)).map_or(before, |m| m.value);
        let after = if ns_of(fastest) < ns_of(before) * WORTH { fastest } else { before };
        best.set(knob.name, after);
        found.push((*knob, before, after, ns_of(before), ns_of(after), measured));
    }
    let changed = best != *rocm.tuning();
    let stored = if changed && !args.dry_run {
        Some(rocm.keep_tuning(&best).map_err(Failure::Op)?.display().to_string())
    } else {
        None
    };
    if common.json {
        for (knob, before, after, before_ns, after_ns, measured) in found {
            let (op, what, device, stored) = (knob.op, knob.what, device.as_str(), stored.clone());
            let line = Line {
                knob: knob.name,
                op,
                what,
                before,
                before_ns,
                after,
                after_ns,
                measured,
                device,
                stored,
            };
            json_line(&line, out)?;
        }
        return Ok(Outcome::Fine);
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(knob, before, after, before_ns, after_ns, _)| {
            let gain = (before_ns / after_ns - 1.0) * 100.0;
            let us = |ns: &f64| format!("{:.1}", ns / 1000.0);
            let verdict = if before == after { "kept".into() } else { format!("{gain:.0} % faster") };
            let numbers = [before.to_string(), us(before_ns), after.to_string(), us(after_ns)];
            [knob.name.to_owned(), knob.op.to_owned()].into_iter().chain(numbers).chain([verdict]).collect()
        })
        .collect();
    Table::print(&["value", "op", ">before", ">us", ">after", ">us", ""], &rows, out)?;
    match stored {
        Some(path) => writeln!(out, "stored in {path}: programs started from now on use it")?,
        None if changed => writeln!(out, "not stored, as asked")?,
        None => writeln!(out, "nothing is worth changing, so nothing is stored")?,
    }
    Ok(Outcome::Fine)
}

/// Kernels that compute something else are not worth timing.
fn check_matrix_units(rocm: &Rocm) -> std::result::Result<(), Failure> {
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

type Outcomes = std::result::Result<Outcome, Failure>;

/// The time of a knob's problems for each of its candidates and for the present value.
fn measure(
    rocm: &Rocm,
    knob: &Knob,
    tuning: &Tuning,
    budget: Duration,
) -> std::result::Result<Vec<Measured>, Failure> {
    let mut values: Vec<u32> = knob.candidates.to_vec();
    let now = tuning.get(knob.name).unwrap_or(knob.value);
    if !values.contains(&now) {
        values.push(now);
    }
    let scale = scale_for(rocm, knob, budget).map_err(Failure::Op)?;
    let time = |value: u32| -> Result<Measured> {
        let mut with = *tuning;
        with.set(knob.name, value);
        let call = problems(&own(rocm, with)?, knob.op, scale)?;
        Ok(Measured { value, ns: median_ns(budget / 2, call)? })
    };
    // Twice, one after the other, and the better of both: whatever else runs slows one pass, not all of a value's.
    let mut best: Vec<Measured> = Vec::with_capacity(values.len());
    for pass in 0..2 {
        for (at, value) in values.iter().enumerate() {
            let now = time(*value).map_err(Failure::Op)?;
            match best.get_mut(at).filter(|_| pass > 0) {
                Some(before) if now.ns < before.ns => *before = now,
                Some(_) => {}
                None => best.push(now),
            }
        }
    }
    Ok(best)
}

/// A queue on the same device whose products are this project's kernels, launched with these values.
fn own(rocm: &Rocm, tuning: Tuning) -> Result<Rocm> {
    let policy = ["matmul", "linear"].into_iter().fold(Policy::new(), |p, op| p.order(op, ["hip"]));
    Rocm::builder().device(rocm.device().clone()).policy(policy).tuning(tuning).build()
}

/// Problems are doubled until one round takes a good part of the budget, or they are as large as they get.
fn scale_for(rocm: &Rocm, knob: &Knob, budget: Duration) -> Result<u32> {
    const LARGEST: u32 = 6;
    let rocm = own(rocm, *rocm.tuning())?;
    for scale in 0..LARGEST {
        let mut call = problems(&rocm, knob.op, scale)?;
        call()?;
        let begin = Instant::now();
        call()?;
        if begin.elapsed() * 16 > budget {
            return Ok(scale);
        }
    }
    Ok(LARGEST)
}

type Call = Box<dyn FnMut() -> Result<()>>;

/// What is timed for an op: sizes that a decoder has at the largest scale, of which there are several where the
/// value is a limit between two ways.
fn problems(rocm: &Rocm, op: &str, scale: u32) -> Result<Call> {
    let (gpu, unit) = (rocm.clone(), 64usize << scale);
    let tensor = |dims: &[usize]| gpu.zeros::<f16>(dims);
    Ok(match op {
        "add" => {
            let (a, b) = (tensor(&[unit, unit])?, tensor(&[unit, unit])?);
            Box::new(move || {
                gpu.add(a.as_ref(), b.as_ref())?;
                gpu.synchronize()
            })
        }
        "rms_norm" => {
            let (x, weight) = (tensor(&[unit, unit])?, tensor(&[unit])?);
            Box::new(move || {
                gpu.rms_norm(x.as_ref(), weight.as_ref(), RmsNorm::eps(1e-5))?;
                gpu.synchronize()
            })
        }
        "linear" => {
            let weight = tensor(&[unit, unit])?;
            let xs =
                [2, 4, 8, 16].map(|rows| tensor(&[rows, unit])).into_iter().collect::<Result<Vec<_>>>()?;
            Box::new(move || {
                xs.iter().try_for_each(|x| gpu.linear(x.as_ref(), weight.as_ref()).map(drop))?;
                gpu.synchronize()
            })
        }
        "qlinear" => {
            let weight = gpu.zeros::<BlockQ8_0>(&[unit, unit / BlockQ8_0::LEN])?;
            let rows = [1, 2, 4, 8, 16];
            let xs = rows.map(|rows| tensor(&[rows, unit])).into_iter().collect::<Result<Vec<_>>>()?;
            Box::new(move || {
                xs.iter().try_for_each(|x| gpu.qlinear(x.as_ref(), weight.as_ref()).map(drop))?;
                gpu.synchronize()
            })
        }
        "matmul" => {
            let sizes = [unit / 2, unit / 4 * 3, unit];
            let pairs = sizes.map(|n| Ok((tensor(&[n, n])?, tensor(&[n, n])?)));
            let pairs = pairs.into_iter().collect::<Result<Vec<_>>>()?;
            Box::new(move || {
                pairs.iter().try_for_each(|(a, b)| gpu.matmul(a.as_ref(), b.as_ref()).map(drop))?;
                gpu.synchronize()
            })
        }
        _ => {
            let q = tensor(&[1, 8, 1, 128])?;
            let caches = [unit, unit * 4].map(|keys| tensor(&[1, 2, keys, 128]));
            let caches = caches.into_iter().collect::<Result<Vec<_>>>()?;
            Box::new(move || {
                let one = |kv: &ops_core::TensorOf<Rocm, f16>| {
                    gpu.attention(q.as_ref(), kv.as_ref(), kv.as_ref(), Attention::causal()).map(drop)
                };
                caches.iter().try_for_each(one)?;
                gpu.synchronize()
            })
        }
    })
}
