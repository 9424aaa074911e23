//! Continues several texts at once, which share one cache: `cargo run --release --example batch`.
use rocm_ops::models::{self, BatchEvent, BatchOptions, GenerateOptions, TextModel};
use rocm_ops::{Cpu, Result};
use std::io::Write;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny-llama-kjv-q8_0.gguf");

fn main() -> Result<()> {
    let (cpu, file, mut out) = (Cpu::new(), models::open(MODEL)?, std::io::stdout());
    let model = TextModel::<f32, _>::load(&cpu, &file, 512)?;
    // Few enough blocks that texts wait for each other.
    let size = BatchOptions { blocks: 12, block_size: 8, ..Default::default() };
    let mut batch = model.batch(&cpu, size)?;
    let mut texts = vec![String::new()];
    for prompt in include_str!("prompts.txt").lines() {
        let options = GenerateOptions { max_tokens: 16, stop: vec!["\n".into()], ..Default::default() };
        batch.add(prompt, options)?; // numbered from 1
        texts.push(prompt.to_owned());
    }
    while !batch.is_idle() {
        for event in batch.step() {
            match event {
                BatchEvent::Token { text, token } => texts[text] += &token.text,
                BatchEvent::Finished { text, reason } => {
                    writeln!(out, "[{text}] {} ({:?})", texts[text], reason?)?
                }
                _ => {}
            }
        }
    }
    let stats = batch.stats();
    writeln!(out, "{} steps, {} tokens, {} preemptions", stats.steps, stats.generated, stats.preemptions)?;
    Ok(())
}
