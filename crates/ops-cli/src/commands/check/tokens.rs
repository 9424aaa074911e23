//! The greedy tokens of a small model on one backend, as a step of its own.
use crate::args::{CheckArgs, Choice};
use crate::exit::{Failure, Outcome};
use crate::output::json_line;
use ops_core::model::Transformer;
use ops_cpu::Cpu;
use ops_models::{Decoder, most_likely};
use ops_rocm::Rocm;
use serde_json::json;
use std::io::Write;

/// The prompt, of ids that every vocabulary has, and the number of tokens that follow.
const PROMPT: std::ops::RangeInclusive<u32> = 1..=16;
const TOKENS: usize = 16;

pub(super) fn run(backend: Choice, args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let model =
        args.model.as_deref().ok_or_else(|| Failure::Usage("--step tokens needs --model".to_owned()))?;
    let gguf = ops_models::open(model).map_err(failed)?;
    let ids = match backend {
        Choice::Rocm => greedy(&Rocm::new()?, &gguf),
        Choice::Cpu | Choice::Reference | Choice::Checked => greedy(&Cpu::new(), &gguf),
    };
    json_line(&json!({ "ids": ids? }), out)?;
    Ok(Outcome::Fine)
}

fn greedy<B: Transformer<f32>>(backend: &B, gguf: &ops_gguf::Gguf) -> Result<Vec<u32>, Failure> {
    let mut next: Vec<u32> = PROMPT.collect();
    let context = next.len() + TOKENS;
    let model = Decoder::<f32, _>::load(backend, gguf, context).map_err(failed)?;
    let mut state = model.state(backend, context).map_err(failed)?;
    let mut ids = Vec::new();
    while ids.len() < TOKENS {
        let logits = model.forward(backend, &mut state, &next).map_err(failed)?;
        let id = most_likely(&logits, state.len() - 1).map_err(|nan| failed(nan.into()))?;
        ids.push(id);
        next = vec![id];
    }
    Ok(ids)
}

fn failed(error: ops_models::Error) -> Failure {
    Failure::Usage(error.to_string())
}
