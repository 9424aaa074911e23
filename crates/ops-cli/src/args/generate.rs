//! The options of `ops generate`.
use super::text::{ChatArgs, DevicesArgs, ModelArgs, SamplingArgs};
use clap::{Args, ValueEnum};
use ops_core::Determinism;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  ops generate                                     continue the first verse of the Bible with the small model of this project
  ops generate --model Qwen3-0.6B-Q4_K_M.gguf --chat --prompt 'Name three rivers.'
  ops generate --model ~/models/Qwen3-0.6B --chat --messages conversation.json --template-arg enable_thinking=false
  ops generate --model ~/models/gemma-3-1b-it --mmap --chat --dtype bf16 --backend rocm --stats
  ops generate --model model-00001-of-00003.gguf --prompts questions.txt --max-tokens 32 --temperature 0
  ops generate --model Llama-3.3-70B-Q4_K_M.gguf --mmap --backend rocm --devices 0,1
  ops generate --model model.gguf --prompt 'Q: Why? A:' --stop 'Q:' --min-p 0.05 --repeat-penalty 1.1

Text streams to standard output; a summary with tokens per second goes to standard error. Ctrl-C stops after the current token, with
the summary; a second one ends the program. `--backend checked` compares every op on the CPU with the reference as it runs.";

/// The end of `--help`, with the families that the library has.
pub(super) fn models_that_run() -> String {
    let list = |names: Vec<&str>| names.join(", ");
    format!(
        "{EXAMPLES}\n\nModels that run, as GGUF files in any of the block formats (general.architecture): {}; and as folders in f32, f16 or \
bf16 (model_type): {}. Anything else is an error that names the option, tensor or key at fault. See docs/run-your-model.md.",
        list(ops_models::families().collect()),
        list(ops_models::folder_families().collect()),
    )
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The model: a GGUF file, the first of split ones (-00001-of-0000N.gguf), or a folder with config.json, safetensors files
    /// and tokenizer.json [default: the small model that comes with this project].
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) running: ModelArgs,
    #[command(flatten)]
    pub(crate) on: DevicesArgs,
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
    pub(crate) chat: ChatArgs,
    /// Print the most likely next token after each token of the prompt, as ids on one line, and generate nothing.
    #[arg(long)]
    pub(crate) top1: bool,
    /// Write the logits after the prompt as a JSON array. Generates nothing.
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Option<PathBuf>,
    /// Maximum number of tokens to generate.
    #[arg(long, default_value_t = 128)]
    pub(crate) max_tokens: usize,
    /// What to do when the context is full: stop, or drop the older half of the text and go on.
    #[arg(long, value_enum, default_value_t = Overflow::Stop)]
    pub(crate) overflow: Overflow,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Process the first prompt once before the timed run, so that the rates leave out first-run costs, such
    /// as fresh memory.
    #[arg(long)]
    pub(crate) warm_up: bool,
    /// Guaranteed determinism: `run` or `batch`. With `batch`, a text has the same tokens alone, beside others and on 1, 2, 4 or 8
    /// --devices; steps may take longer.
    #[arg(long, value_name = "LEVEL", default_value_t = Determinism::Run)]
    pub(crate) determinism: Determinism,
    /// Print only the ids of the generated tokens.
    #[arg(long)]
    pub(crate) ids: bool,
}

/// The text to continue if no other is given.
pub(crate) const PROMPT: &str = "Genesis 1\n1 In the beginning";

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Overflow {
    Stop,
    Shift,
}
