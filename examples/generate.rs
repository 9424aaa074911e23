//! Generates text with a model: `cargo run --release --example generate -- --model MODEL --prompt TEXT`.
use rocm_ops::model::Transformer;
use rocm_ops::models::{self, Finish, GenerateOptions, TextModel};
use rocm_ops::{Cpu, Float, Result};
use std::io::Write;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny-llama-kjv-q8_0.gguf");
const PROMPT: &str = "Genesis 1\n1 In the beginning";
const USAGE: &str =
    "usage: generate [--model FILE-OR-FOLDER] [--prompt TEXT]; `ops generate` has more options";

/// Prints the prompt and what follows it, on any backend (such as `Cpu` or `Rocm`), computed in any float type (such as f32 or bf16).
fn generate<T: Float, B: Transformer<T>>(b: &B, path: &str, prompt: &str) -> Result<()> {
    let file = models::open(path)?;
    let model = TextModel::<T, B>::load(b, &file, 4096)?;
    let mut out = std::io::stdout();
    write!(out, "{prompt}")?;
    let mut text = model.generate(b, prompt, GenerateOptions::default())?;
    for token in &mut text {
        write!(out, "{}", token?.text)?;
        out.flush()?;
    }
    writeln!(out)?;
    if text.finish() == Some(Finish::Context) {
        writeln!(out, "(stopped: the context of {} tokens is full)", model.decoder().context())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut model, mut prompt) = (MODEL.to_owned(), PROMPT.to_owned());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(USAGE)?;
        match word.as_str() {
            "--model" => model = value,
            "--prompt" => prompt = value,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(generate::<f32, _>(&Cpu::new(), &model, &prompt)?)
}
