//! The greedy tokens of a small model on one backend, as a step of its own.
use crate::args::{CheckArgs, Choice};
use crate::exit::{Failure, Outcome};
use crate::output::json_line;
use ops_core::model::Transformer;
use ops_cpu::Cpu;
use ops_models::Decoder;
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
        Choice::Cpu | Choice::Reference => greedy(&Cpu::new(), &gguf),
    };
    json_line(&json!({ "ids": ids? }), out)?;
    Ok(Outcome::Fine)
}

fn greedy<B: Transformer<f32>>(backend: &B, gguf: &ops_gguf::Gguf) -> Result<Vec<u32>, Failure> {
    let prompt: Vec<u32> = PROMPT.collect();
    let context = prompt.len() + TOKENS;
    let model = Decoder::<f32, _>::load(backend, gguf, context).map_err(failed)?;
    let mut state = model.state(backend, context).map_err(failed)?;
    let mut logits = model.forward(backend, &mut state, &prompt).map_err(failed)?;
    let mut ids = Vec::new();
    while ids.len() < TOKENS {
        if let Some(at) = logits.iter().position(|logit| logit.is_nan()) {
            return Err(Failure::Usage(format!("token {}: the logit of id {at} is NaN", ids.len() + 1)));
        }
        let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]).then(b.cmp(a)));
        ids.push(best.unwrap_or(0) as u32);
        logits = model.forward(backend, &mut state, &ids[ids.len() - 1..]).map_err(failed)?;
    }
    Ok(ids)
}

fn failed(error: ops_models::Error) -> Failure {
    Failure::Usage(error.to_string())
}
