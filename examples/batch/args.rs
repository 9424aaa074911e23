//! The command line.
use clap::Parser;
use examples_shared::Opening;
use examples_shared::backend::{Activations, Computing, On, Type};
use examples_shared::chat;
use rocm_ops::Determinism;
use std::path::PathBuf;

/// Continue many texts at once with a model, over a paged cache.
///
/// Every line is a prompt and becomes a sequence with a number. Sequences join and leave at every step: a step appends one token to
/// each sequence that is being continued, and reads prompts of those that have just joined, all in one pass over the weights.
#[derive(Parser)]
#[command(after_long_help = TEACHES)]
pub(crate) struct Args {
    /// The model: a GGUF file, the first of split ones (-00001-of-0000N.gguf), or a folder with config.json, safetensors files
    /// and tokenizer.json [default: the small model that comes with this project].
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny-llama-kjv-q8_0.gguf"), hide_default_value = true)]
    pub(crate) model: PathBuf,
    /// Map the model's files into memory instead of reading them. The files must not be changed or truncated
    /// while this runs.
    #[arg(long)]
    pub(crate) mmap: bool,
    /// Run a folder whose config.json has options that this program does not know, with a warning. Results may differ from those
    /// of the model's authors.
    #[arg(long)]
    pub(crate) allow_unknown_options: bool,
    /// The file whose lines are the prompts; `-` is standard input, whose lines are read as they arrive.
    /// Empty lines are skipped.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) prompts: PathBuf,
    /// A prompt, instead of a file. May be given several times.
    #[arg(long, value_name = "TEXT", conflicts_with = "prompts")]
    pub(crate) prompt: Vec<String>,
    #[command(flatten)]
    pub(crate) chat: chat::Options,

    /// Size of the shared cache, in blocks.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) blocks: u32,
    /// Number of tokens per block.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) block_size: u32,
    /// Maximum sequences per step; the rest wait.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_batch: u32,
    /// Maximum prompt tokens per step. Longer prompts are read in several steps, so that they do not delay
    /// other sequences.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) prefill: u32,
    /// Compute every prompt completely, even if it begins like another sequence.
    #[arg(long)]
    pub(crate) no_sharing: bool,

    /// Maximum number of tokens to generate for each prompt.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: u32,
    /// Go on when the model generates an end token.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
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
    /// Seed of the sampler. Each sequence counts its own tokens, so the result does not depend on the others.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,

    /// Backend to run on; `checked` compares every op on the CPU with the reference, `rocm` is an AMD GPU.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    pub(crate) backend: On,
    /// Type of the activations and of the cache. Weights keep their type in the file.
    #[arg(long, value_enum, default_value_t = Type::F32)]
    pub(crate) dtype: Type,
    /// What quantized weights are multiplied by on the CPU: activations rounded to 8 bits, as in llama.cpp, or the activations as they
    /// are. Rounded is faster. Where two tokens are almost equally likely, it can change which is generated.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) activations: Activations,
    /// Guaranteed determinism: `run` or `batch`. With `batch`, every sequence gives the same tokens as it
    /// would alone, whatever other sequences run with it and however its prompt is split; steps may take
    /// longer.
    #[arg(long, value_name = "LEVEL", default_value_t = Determinism::Run)]
    pub(crate) determinism: Determinism,
    /// Print one JSON object per line: when a sequence starts, for each token, and when it is done.
    #[arg(long)]
    pub(crate) json: bool,
    /// At the end, write to standard error: speed, batch sizes, use of the blocks, and calls and time of each
    /// op.
    #[arg(long)]
    pub(crate) stats: bool,
}

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
            determinism: self.determinism,
            activations: self.activations,
            stats: self.stats,
        }
    }
}

const TEACHES: &str = "\
Output: text is printed as [NUMBER] LINE, each line as soon as it is complete. With --json every token is printed immediately:
  {\"sequence\":1,\"event\":\"start\",\"prompt_tokens\":9,\"shared_tokens\":0}
  {\"sequence\":1,\"event\":\"token\",\"id\":262,\"text\":\" the\"}
  {\"sequence\":1,\"event\":\"done\",\"reason\":\"end\",\"ids\":[262,..],\"text\":\" the ..\",\"preemptions\":0}
Reasons: end (the model ended the text), length (--max-tokens), context (it is full), cancelled, interrupted (Ctrl-C), refused (a \
prompt that does not fit or is not UTF-8; the message says why, and the exit status is 1), failed (its next token cannot be computed, \
likewise).

Cancelling: the line `:cancel NUMBER` on standard input ends that sequence after the current step and frees its blocks. Write \
`::` for a prompt that begins with a colon. Standard input is read one prompt \
further than --max-batch. Closing standard input lets all sequences finish. Ctrl-C ends all sequences after the \
current step, with the summary; a second Ctrl-C ends the program.

Blocks: keys and values are in blocks of --block-size tokens, and a sequence takes blocks as it grows. A sequence joins if there are \
blocks for its whole prompt plus one for each running sequence. When the blocks run out, the sequence that joined last is preempted: \
its blocks are freed, and later its prompt and generated tokens are computed again before it continues (nothing is swapped out). \
A prompt that begins like a running sequence shares that sequence's blocks instead of computing them; the first sequence that \
writes to a shared block takes a copy.

Models with recurrent layers (qwen3next, qwen35, qwen35moe) also need a state of fixed size for each of --max-batch sequences. \
Sequences of these models do not share blocks.

Examples:
  batch --prompts questions.txt --max-tokens 64 --stats
  batch --model Qwen3-0.6B-Q4_K_M.gguf --chat --json < questions.txt > answers.jsonl
  batch --prompts questions.txt --determinism batch --temperature 0
  batch --prompt 'In the beginning' --prompt 'In the end' --blocks 8 --block-size 4 --stats";

fn temperature(text: &str) -> Result<f64, String> {
    number(text, "a finite number, 0 or larger", |t| t >= 0.0 && t.is_finite())
}
fn probability(text: &str) -> Result<f64, String> {
    number(text, "a number above 0 and at most 1", |p| p > 0.0 && p <= 1.0)
}
fn number(text: &str, want: &str, fits: fn(f64) -> bool) -> Result<f64, String> {
    text.parse().ok().filter(|n| fits(*n)).ok_or_else(|| format!("expected {want}"))
}
