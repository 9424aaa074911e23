//! Times candle's quantized llama on its own weights and on ours, and the example `llama`:
//! `tokens_per_second MODEL.gguf [PROMPT TOKENS ROUNDS]`. `peers/adapter.sh` calls it for several types.
use candle_core::quantized::gguf_file;
use candle_core::{Device, Result, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use rocm_ops::Cpu;
use rocm_ops::gguf::Gguf;
use rocm_ops_candle::{Llama, llama};
use std::time::Instant;

#[path = "llama.rs"]
mod example;

/// Computes the logits after some tokens, which follow a number of others.
type Forward = Box<dyn FnMut(&[u32], usize) -> Result<Tensor>>;

fn of_candle(mut model: ModelWeights) -> Forward {
    Box::new(move |ids, start| model.forward(&Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?, start))
}

fn before(path: &str) -> Result<ModelWeights> {
    let mut file = std::fs::File::open(path)?;
    let content = gguf_file::Content::read(&mut file)?;
    ModelWeights::from_gguf(content, &mut file, &Device::Cpu)
}

fn after(path: &str) -> Result<ModelWeights> {
    let gguf = Gguf::open(path).map_err(candle_core::Error::wrap)?;
    let Llama { content, gqa } = llama(&gguf, &Cpu::new())?;
    ModelWeights::from_ggml(content, gqa)
}

/// Tokens per second of the prompt and of the tokens after it.
fn time(forward: &mut Forward, prompt: &[u32], tokens: usize) -> Result<[f64; 2]> {
    let begin = Instant::now();
    forward(prompt, 0)?;
    let prefill = prompt.len() as f64 / begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    for i in 0..tokens {
        forward(&[i as u32 % 1000], prompt.len() + i)?;
    }
    Ok([prefill, tokens as f64 / begin.elapsed().as_secs_f64()])
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: tokens_per_second MODEL.gguf [PROMPT TOKENS ROUNDS]")?;
    let mut number = |default: usize| args.next().map_or(Ok(default), |n| n.parse::<usize>());
    let (prompt, tokens, rounds) = (number(128)?, number(32)?, number(3)?);
    let ids: Vec<u32> = (0..prompt as u32).map(|i| i * 7 % 1000).collect();
    let own = example::Llama::load(&Gguf::open(&path)?, Cpu::new(), prompt + tokens)?;
    let mut ways: [(&str, Forward); 3] = [
        ("candle", of_candle(before(&path)?)),
        ("candle on our weights", of_candle(after(&path)?)),
        ("example llama", Box::new(move |ids, start| own.forward(ids, start))),
    ];
    // The best of interleaved rounds: what other programs cost only makes a round slower.
    let mut best = [[0f64; 2]; 3];
    for _ in 0..rounds {
        for ((_, forward), best) in ways.iter_mut().zip(&mut best) {
            let times = time(forward, &ids, tokens)?;
            *best = [best[0].max(times[0]), best[1].max(times[1])];
        }
    }
    for ((name, _), [prefill, decode]) in ways.iter().zip(best) {
        let [p, d] = [prefill / best[0][0], decode / best[0][1]];
        println!(
            "{name:22} prefill {prefill:8.1} tokens/s ({p:.2}x)  decode {decode:7.2} tokens/s ({d:.2}x)"
        );
    }
    Ok(())
}
