//! The command line.
use clap::{Parser, ValueEnum};
use examples_shared::Opening;
use examples_shared::backend::{Activations, Computing, On, Type};
use examples_shared::chat;
use rocm_ops::{Determinism, models};
use std::path::PathBuf;

/// Generate text with a model.
///
/// Text streams to standard output; a summary with tokens per second goes to standard error. Ctrl-C stops after the current
/// token, with the summary; a second one ends the program.
#[derive(Parser)]
#[command(after_long_help = models_that_run())]
pub(crate) struct Args {
    /// The model: a GGUF file, the first of split ones (-00001-of-0000N.gguf), or a folder with config.json, safetensors files
    /// and tokenizer.json [default: the small model that comes with this project].
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny-llama-kjv-q8_0.gguf"), hide_default_value = true)]
    pub(crate) model: PathBuf,
    /// Map the model's files into memory instead of reading them: starts at once and shares memory with other
    /// programs. The files must not be changed or truncated while this runs.
    #[arg(long)]
    pub(crate) mmap: bool,
    /// Run a folder whose config.json has options that this program does not know, with a warning. Results may differ from those
    /// of the model's authors.
    #[arg(long)]
    pub(crate) allow_unknown_options: bool,
    /// Text to continue. Special tokens in it are treated as plain text [default: the beginning of the Bible; with --messages, none].
    #[arg(long)]
    pub(crate) prompt: Option<String>,
    /// Token ids to continue, such as 5,17,3, instead of text. Nothing is put before them. A model without a tokenizer then runs too,
    /// and prints ids.
    #[arg(long, value_name = "IDS", value_delimiter = ',', conflicts_with_all = ["prompt", "chat"])]
    pub(crate) prompt_ids: Option<Vec<u32>>,
    /// Continue each line of a file. All lines go through the model as one batch, each with its own context
    /// and sampler; empty lines are skipped. Prints one line for each, in order, with line breaks as \n.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "prompt_ids", "top1", "logits"])]
    pub(crate) prompts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) chat: chat::Options,
    /// Print the most likely next token after each token of the prompt, as ids on one line, and generate nothing.
    #[arg(long)]
    pub(crate) top1: bool,
    /// Write the logits after the prompt as a JSON array. Generates nothing.
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Option<PathBuf>,
    /// Go on when the model generates an end token.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Maximum number of tokens to generate.
    #[arg(long, default_value_t = 128)]
    pub(crate) max_tokens: usize,
    /// What to do when the context is full: stop, or drop the older half of the text and go on.
    #[arg(long, value_enum, default_value_t = Overflow::Stop)]
    pub(crate) overflow: Overflow,
    /// Use less than the context that the model was trained for, in tokens.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) context: Option<u32>,
    /// Sampling temperature: 0 always picks the most likely token, 1 samples from the model's distribution.
    #[arg(long, default_value_t = 0.8, value_parser = temperature, allow_negative_numbers = true)]
    pub(crate) temperature: f64,
    /// Sample from only this many of the most likely tokens; 0 means all.
    #[arg(long)]
    pub(crate) top_k: Option<usize>,
    /// Sample from the smallest set of most likely tokens whose probabilities sum to at least this.
    #[arg(long, value_parser = probability, allow_negative_numbers = true)]
    pub(crate) top_p: Option<f64>,
    /// Seed of the sampler. The same seed gives the same text, alone or with others, on every backend that computes the same
    /// logits.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Backend to run on; `checked` compares every op on the CPU with the reference, `rocm` is an AMD GPU.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    pub(crate) backend: On,
    /// Type of the activations. Weights keep their type in the file.
    #[arg(long, value_enum, default_value_t = Type::F32)]
    pub(crate) dtype: Type,
    /// What quantized weights are multiplied by on the CPU: activations rounded to 8 bits, as in llama.cpp, or the activations as they
    /// are. Rounded is faster. Where two tokens are almost equally likely, it can change which is generated.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) activations: Activations,
    /// Process the first prompt once before the timed run, so that the rates leave out first-run costs, such
    /// as fresh memory.
    #[arg(long)]
    pub(crate) warm_up: bool,
    /// Print only the ids of the generated tokens.
    #[arg(long)]
    pub(crate) ids: bool,
    /// Print one JSON object with text, ids and timings instead of the text itself; with --prompts, one per
    /// line.
    #[arg(long)]
    pub(crate) json: bool,
    /// At the end, write to standard error: memory, and calls and time of each op; on an AMD GPU also its
    /// provider.
    #[arg(long)]
    pub(crate) stats: bool,
}

/// The text to continue if no other is given.
pub(crate) const PROMPT: &str = "Genesis 1\n1 In the beginning";

impl Args {
    /// How the model is opened.
    pub(crate) fn opening(&self) -> Opening {
        Opening { map: self.mmap, allow_unknown_options: self.allow_unknown_options, on: self.backend }
    }
    /// How the model is run.
    pub(crate) fn computing(&self) -> Computing {
        Computing {
            on: self.backend,
            dtype: self.dtype,
            determinism: Determinism::Run,
            activations: self.activations,
            stats: self.stats,
        }
    }
}

/// The end of `--help`, with the families that the library has.
fn models_that_run() -> String {
    let list = |names: Vec<&str>| names.join(", ");
    format!(
        "Models that run, as GGUF files in any of the block formats (general.architecture): {}; and as folders in f32, f16 or bf16 \
(model_type): {}. Anything else is an error that names the option, tensor or key at fault. See docs/run-your-model.md.\n\n{EXAMPLES}",
        list(models::families().collect()),
        list(models::folder_families().collect()),
    )
}

const EXAMPLES: &str = "\
Examples:
  generate --model Qwen3-0.6B-Q4_K_M.gguf --chat --prompt 'Name three rivers.'
  generate --model ~/models/Qwen3-0.6B --chat --messages conversation.json --template-arg enable_thinking=false
  generate --model ~/models/gemma-3-1b-it --mmap --chat --dtype bf16 --backend rocm --stats
  generate --model model-00001-of-00003.gguf --prompts questions.txt --max-tokens 32 --temperature 0";

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Overflow {
    Stop,
    Shift,
}

fn temperature(text: &str) -> Result<f64, String> {
    number(text, "a finite number, 0 or larger", |t| t >= 0.0 && t.is_finite())
}
fn probability(text: &str) -> Result<f64, String> {
    number(text, "a number above 0 and at most 1", |p| p > 0.0 && p <= 1.0)
}
fn number(text: &str, want: &str, fits: fn(f64) -> bool) -> Result<f64, String> {
    text.parse().ok().filter(|n| fits(*n)).ok_or_else(|| format!("expected {want}"))
}
