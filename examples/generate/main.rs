//! Generates text with a model, on any backend: `cargo run --release --example generate`.
mod sampler;

use clap::{Parser, ValueEnum};
use rocm_ops::gguf::{Gguf, Tokenizer};
use rocm_ops::model::Transformer;
use rocm_ops::models::{Config, Decoder};
use rocm_ops::{Checked, Cpu, Float, Reference, bf16, f16};
use sampler::{Sampler, Sampling};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Generate text with a model from a GGUF file.
///
/// Text streams to standard output; a summary with tokens per second goes to standard error. The families of models that run
/// are listed by the message for one that does not.
#[derive(Parser)]
struct Args {
    /// GGUF file of the model [default: the small model that comes with this project].
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny-llama-kjv-q8_0.gguf"), hide_default_value = true)]
    model: PathBuf,
    /// Text to continue. Special tokens in it are treated as plain text.
    #[arg(long, default_value = "Genesis 1\n1 In the beginning")]
    prompt: String,
    /// Token ids to continue, such as 5,17,3, in place of text. Nothing is put before them.
    #[arg(long, value_name = "IDS", value_delimiter = ',', conflicts_with = "prompt")]
    prompt_ids: Option<Vec<u32>>,
    /// Print the most likely next token after each token of the prompt, as ids on one line, and generate nothing.
    #[arg(long)]
    top1: bool,
    /// Write the logits after the prompt as a JSON array. Generates nothing.
    #[arg(long, value_name = "FILE")]
    logits: Option<PathBuf>,
    /// Go on when the model generates an end token.
    #[arg(long)]
    ignore_eos: bool,
    /// Maximum number of tokens to generate.
    #[arg(long, default_value_t = 128)]
    max_tokens: usize,
    /// Sampling temperature: 0 always picks the most likely token, 1 samples from the model's distribution.
    #[arg(long, default_value_t = 0.8, value_parser = temperature, allow_negative_numbers = true)]
    temperature: f32,
    /// Sample from only this many of the most likely tokens; 0 means all.
    #[arg(long)]
    top_k: Option<usize>,
    /// Sample from the smallest set of most likely tokens whose probabilities sum to at least this.
    #[arg(long, value_parser = probability, allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Seed of the sampler. The same seed gives the same text.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Backend to run on; `checked` compares every op on the CPU with the reference, `rocm` is an AMD GPU.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    backend: On,
    /// Type of the activations. Weights keep the type they have in the file.
    #[arg(long, value_enum, default_value_t = Type::F32)]
    dtype: Type,
    /// Print only the ids of the generated tokens.
    #[arg(long)]
    ids: bool,
    /// Print one JSON object with text, ids and timings instead of the text itself.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum On {
    Cpu,
    Reference,
    Checked,
    #[cfg(feature = "rocm")]
    Rocm,
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F32,
    F16,
    Bf16,
}

fn temperature(text: &str) -> std::result::Result<f32, String> {
    number(text, "a finite number, 0 or larger", |t| t >= 0.0 && t.is_finite())
}
fn probability(text: &str) -> std::result::Result<f32, String> {
    number(text, "a number above 0 and at most 1", |p| p > 0.0 && p <= 1.0)
}
fn number(text: &str, want: &str, fits: fn(f32) -> bool) -> std::result::Result<f32, String> {
    text.parse().ok().filter(|n| fits(*n)).ok_or_else(|| format!("expected {want}"))
}

fn main() -> ExitCode {
    #[cfg(feature = "rocm")]
    rocm_ops::rocm::compile_helper();
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let nothing: &Prepare<'_> = &|_| Ok(());
    match args.backend {
        On::Cpu => with_type(args, "cpu", &Cpu::new(), nothing),
        On::Reference => with_type(args, "reference", &Reference::new(), nothing),
        On::Checked => with_type(args, "checked", &Checked::new(Cpu::new(), Reference::new()), nothing),
        #[cfg(feature = "rocm")]
        On::Rocm => {
            let rocm = rocm_ops::Rocm::new()?;
            with_type(args, "rocm", &rocm, &|steps| compile_kernels(&rocm, steps))
        }
    }
}

/// The model's steps, on a state of their own.
type Steps<'s> = dyn FnMut() -> Result<()> + 's;
/// Readies a backend for these steps.
type Prepare<'p> = dyn Fn(&mut Steps<'_>) -> Result<()> + 'p;

/// Compiles the kernels of these steps, and says so if that took time.
#[cfg(feature = "rocm")]
fn compile_kernels(rocm: &rocm_ops::Rocm, steps: &mut Steps<'_>) -> Result<()> {
    let prepared = rocm.prepare(steps)?;
    if prepared.compiled() > 0 {
        eprintln!("{prepared}; later runs find them in the cache");
    }
    Ok(())
}

/// Picks the element type. Everything below is generic over it.
fn with_type<B>(args: &Args, name: &str, backend: &B, prepare: &Prepare<'_>) -> Result<()>
where
    B: Transformer<f32> + Transformer<f16> + Transformer<bf16>,
{
    match args.dtype {
        Type::F32 => generate::<f32, B>(args, name, backend, prepare),
        Type::F16 => generate::<f16, B>(args, name, backend, prepare),
        Type::Bf16 => generate::<bf16, B>(args, name, backend, prepare),
    }
}

/// Prefills the prompt in one pass, then decodes token by token.
fn generate<T: Float, B: Transformer<T>>(
    args: &Args,
    name: &str,
    backend: &B,
    prepare: &Prepare<'_>,
) -> Result<()> {
    let gguf = Gguf::open(&args.model)?;
    let tokenizer = gguf.tokenizer()?;
    let prompt = match &args.prompt_ids {
        Some(ids) => ids.clone(),
        None => tokenizer.encode(&args.prompt)?,
    };
    let context = Config::new(gguf.metadata())?.context;
    if prompt.is_empty() || prompt.len() > context {
        return Err(
            format!("the prompt has {} tokens; this model accepts 1 to {context}", prompt.len()).into()
        );
    }
    // The last generated token is never fed back, so the cache needs no room for it.
    let capacity = context.min(prompt.len().saturating_add(args.max_tokens));
    let model = Decoder::<T, B>::load(backend, &gguf, capacity)?;
    if let Some(id) = prompt.iter().find(|id| **id as usize >= model.vocabulary()) {
        return Err(format!("token {id} of the prompt: this model has {} tokens", model.vocabulary()).into());
    }
    prepare(&mut || {
        let mut state = model.state(backend, capacity)?;
        model.forward(backend, &mut state, &prompt)?;
        if state.len() < capacity {
            model.forward(backend, &mut state, &prompt[..1])?;
        }
        Ok(())
    })?;
    if args.top1 || args.logits.is_some() {
        return read_prompt(args, backend, &model, &prompt);
    }
    let mut state = model.state(backend, capacity)?;
    let mut sampler = Sampler::new(Sampling {
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
        seed: args.seed,
    });
    let mut output = Output::new(args, &tokenizer, &prompt)?;

    let begin = Instant::now();
    let mut logits = model.forward(backend, &mut state, &prompt)?;
    let prefill = begin.elapsed();
    let mut full = false;
    while output.ids.len() < args.max_tokens {
        let token = sampler.next(&logits).ok_or("all logits of the model are NaN")?;
        output.push(token)?;
        full = state.len() == context;
        if (tokenizer.is_end(token) && !args.ignore_eos) || full || output.ids.len() == args.max_tokens {
            break;
        }
        logits = model.forward(backend, &mut state, &[token])?;
    }
    let decode = begin.elapsed() - prefill;
    let rate = |n: usize, time: std::time::Duration| n as f64 / time.as_secs_f64().max(1e-9);
    let (read, made) = (rate(prompt.len(), prefill), rate(output.ids.len().saturating_sub(1), decode));
    output.finish(serde_json::json!({
        "prompt_tokens": prompt.len(), "prefill_per_second": read, "decode_per_second": made,
        "backend": name, "dtype": T::DTYPE.name(), "end_of_context": full,
    }))?;
    eprintln!(
        "{} prompt tokens at {read:.0}/s, {} tokens at {made:.0}/s, on {name} in {}{}",
        prompt.len(),
        output.ids.len(),
        T::DTYPE,
        if full {
            format!("; stopped because the context of {context} tokens is full")
        } else {
            String::new()
        },
    );
    Ok(())
}

/// Prints what the model expects after each token of the prompt, or writes what it expects after the last.
fn read_prompt<T: Float, B: Transformer<T>>(
    args: &Args,
    backend: &B,
    model: &Decoder<T, B>,
    prompt: &[u32],
) -> Result<()> {
    let mut state = model.state(backend, prompt.len())?;
    let logits = model.forward_all(backend, &mut state, prompt)?;
    let rows = logits.chunks(model.vocabulary());
    if let Some(file) = &args.logits {
        let last = rows.clone().next_back().unwrap_or_default();
        let json = serde_json::to_vec(last)?;
        std::fs::write(file, json).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    }
    if args.top1 {
        let ids: Option<Vec<String>> = rows.map(|row| Some(sampler::most_likely(row)?.to_string())).collect();
        println!("{}", ids.ok_or("all logits of the model are NaN")?.join(" "));
    }
    Ok(())
}

/// Where generated tokens go: streamed text, ids, or JSON at the end.
struct Output<'a> {
    args: &'a Args,
    stream: rocm_ops::gguf::DecodeStream<'a>,
    text: String,
    ids: Vec<u32>,
}

impl<'a> Output<'a> {
    fn new(args: &'a Args, tokenizer: &'a Tokenizer, prompt: &[u32]) -> Result<Self> {
        let mut output = Output {
            args,
            stream: tokenizer.decode_stream_after(prompt)?,
            text: String::new(),
            ids: Vec::new(),
        };
        let given = if args.prompt_ids.is_some() { tokenizer.decode(prompt)? } else { args.prompt.clone() };
        output.write(&given)?;
        Ok(output)
    }
    fn push(&mut self, token: u32) -> Result<()> {
        self.ids.push(token);
        let piece = self.stream.push(token)?.unwrap_or_default();
        self.write(&piece)
    }
    fn write(&mut self, piece: &str) -> Result<()> {
        self.text.push_str(piece);
        if !self.args.ids && !self.args.json {
            let mut out = std::io::stdout().lock();
            out.write_all(piece.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }
    fn finish(&mut self, mut summary: serde_json::Value) -> Result<()> {
        let mut out = std::io::stdout().lock();
        if self.args.json {
            summary["text"] = self.text.clone().into();
            summary["ids"] = self.ids.clone().into();
            writeln!(out, "{summary}")?;
        } else if self.args.ids {
            let ids: Vec<String> = self.ids.iter().map(u32::to_string).collect();
            writeln!(out, "{}", ids.join(" "))?;
        } else {
            writeln!(out)?;
        }
        Ok(())
    }
}
