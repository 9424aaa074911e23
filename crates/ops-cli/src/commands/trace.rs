//! `ops trace`: records the op calls of a model's run.
use crate::args::{Activations, Choice, Common, TraceArgs};
use crate::backend::host;
use crate::exit::{Failure, Outcome};
use crate::output::{Progress, json_line};
use ops_command::memory::{self, Copies};
use ops_core::combine::Traced;
use ops_core::model::Transformer;
use ops_core::{Determinism, Float, bf16, f16};
use ops_gguf::{AtomicFile, Gguf};
use ops_models::{Config, Decoder, most_likely};
use ops_test::trace::{TraceRecorder, TraceSummary};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::sync::Arc;

/// The prompt if none is given: ids that every vocabulary has.
const PROMPT: std::ops::RangeInclusive<u32> = 1..=16;

#[derive(Serialize)]
struct Line<'a> {
    file: String,
    calls: u64,
    distinct: usize,
    bytes: u64,
    not_recorded: Vec<Missing<'a>>,
}

#[derive(Serialize)]
struct Missing<'a> {
    op: &'a str,
    calls: u64,
    reason: &'a str,
}

pub(super) fn run(common: Common, args: &TraceArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if common.backend == Choice::Rocm {
        let advice = "leave out --backend rocm, and pass it to `ops replay`";
        return Err(Failure::Usage(format!("runs are recorded on the CPU: {advice}")));
    }
    let file = AtomicFile::create(&args.out).map_err(|error| Failure::Usage(error.to_string()))?;
    let copies = Copies { read: true, packed: common.backend == Choice::Cpu };
    memory::check(&ops_models::files(&args.model).map_err(failed)?, copies)?;
    let gguf = ops_models::open(&args.model).map_err(failed)?;
    let prompt = if args.prompt_ids.is_empty() { PROMPT.collect() } else { args.prompt_ids.clone() };
    let unwritten = |error| Failure::Write(args.out.display().to_string(), error);
    let recorder = TraceRecorder::new(file, about(&gguf, args, &prompt), args.inputs).map_err(unwritten)?;
    let recorder = Arc::new(recorder);
    let host = host(common.backend, Determinism::Run).map_err(Failure::Op)?;
    let backend = Traced::new(host, recorder.clone());
    let mut progress = Progress::new(common.progress);
    let steps = match args.dtype {
        Activations::F32 => decode::<f32, _>(&backend, &gguf, &prompt, args.tokens, &mut progress),
        Activations::F16 => decode::<f16, _>(&backend, &gguf, &prompt, args.tokens, &mut progress),
        Activations::Bf16 => decode::<bf16, _>(&backend, &gguf, &prompt, args.tokens, &mut progress),
    };
    progress.clear();
    steps?;
    let (file, written) = recorder.finish().map_err(unwritten)?;
    file.commit().map_err(|error| Failure::Usage(error.to_string()))?;
    report(args, &written, common.json, out)?;
    Ok(Outcome::Fine)
}

fn failed(error: ops_models::Error) -> Failure {
    match error {
        ops_models::Error::Op(error) => Failure::Op(error),
        other => Failure::Usage(other.to_string()),
    }
}

/// A description of the run, for people.
fn about(gguf: &Gguf, args: &TraceArgs, prompt: &[u32]) -> Map<String, Value> {
    let name = args.model.file_name().map(|name| name.to_string_lossy());
    let about = [
        ("program", json!(concat!("ops ", env!("CARGO_PKG_VERSION")))),
        ("model", json!(name)),
        ("architecture", json!(gguf.metadata().architecture().ok())),
        ("dtype", json!(format!("{:?}", args.dtype).to_lowercase())),
        ("prompt", json!(prompt)),
        ("tokens", json!(args.tokens)),
        ("inputs", json!(args.inputs)),
    ];
    about.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Runs the prompt and `tokens` greedy steps after it. Loading the model is not part of the run.
fn decode<T: Float, B: Transformer<T>>(
    backend: &Traced<B>,
    gguf: &Gguf,
    prompt: &[u32],
    tokens: usize,
    progress: &mut Progress,
) -> Result<(), Failure>
where
    Traced<B>: Transformer<T, Space = B::Space>,
{
    let loading = backend.clone().on(false);
    let context = prompt.len().saturating_add(tokens);
    let mut load = |done, all| progress.step(done, all, "layers loaded");
    let config = Config::new(gguf.metadata()).map_err(failed)?;
    let model = Decoder::<T, _>::load_with(&loading, gguf, config, context, &mut load).map_err(failed)?;
    let vocabulary = model.vocabulary();
    if let Some(id) = prompt.iter().find(|id| **id as usize >= vocabulary) {
        let message = format!("--prompt-ids has {id}, but the model's ids are below {vocabulary}");
        return Err(Failure::Usage(message));
    }
    let mut state = model.state(&loading, context).map_err(failed)?;
    let steps = tokens.saturating_add(1);
    progress.step(0, steps, "the prompt");
    let mut logits = model.forward(backend, &mut state, prompt).map_err(failed)?;
    for step in 1..=tokens {
        progress.step(step, steps, "steps");
        let token = most_likely(&logits, state.len() - 1).map_err(|nan| failed(nan.into()))?;
        logits = model.forward(backend, &mut state, &[token]).map_err(failed)?;
    }
    Ok(())
}

fn report(args: &TraceArgs, written: &TraceSummary, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let TraceSummary { calls, distinct, bytes, not_recorded, .. } = written;
    if json {
        let missing = not_recorded.iter();
        let not_recorded =
            missing.map(|m| Missing { op: &m.op, calls: m.calls, reason: &m.reason }).collect();
        let file = args.out.display().to_string();
        return Ok(json_line(
            &Line { file, calls: *calls, distinct: *distinct, bytes: *bytes, not_recorded },
            out,
        )?);
    }
    for missing in not_recorded {
        writeln!(out, "not recorded: {} calls of {}: {}", missing.calls, missing.op, missing.reason)?;
    }
    let kib = *bytes as f64 / 1024.0;
    writeln!(out, "{}: {calls} calls, {distinct} of them distinct, {kib:.1} KiB", args.out.display())?;
    Ok(())
}
