//! Compares sentences by their vectors: `cargo run --release --example embed -- MODEL 'A cat sleeps.' 'A dog is asleep.'`, where `MODEL` is
//! an encoder such as all-MiniLM-L6-v2, as a folder or a GGUF file.
use rocm_ops::Cpu;
use rocm_ops::models::{self, Encoder};
use std::error::Error;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("usage: embed MODEL TEXT...; `ops embed` has more options")?;
    let (cpu, file) = (Cpu::new(), models::open(path)?);
    let (encoder, tokenizer) = (Encoder::<f32, _>::load(&cpu, &file)?, file.tokenizer()?);
    let texts: Vec<String> = words.collect();
    let mut ids = Vec::new();
    for text in &texts {
        let mut tokens = tokenizer.encode(text)?;
        models::truncate(&mut tokens, encoder.config().max_tokens);
        ids.push(tokens);
    }
    let ids: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
    let vectors = encoder.embed(&cpu, &ids)?;
    for (text, vector) in texts.iter().zip(&vectors) {
        let cosines: Vec<String> =
            vectors.iter().map(|other| format!("{:6.3}", cosine(vector, other))).collect();
        writeln!(std::io::stdout(), "{}  {text}", cosines.join(" "))?;
    }
    Ok(())
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
