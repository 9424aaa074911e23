//! The options of `ops batch`.
use super::text::{ChatArgs, DevicesArgs, ModelArgs, SamplingArgs};
use clap::Args;
use ops_core::Determinism;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  ops batch --prompts questions.txt --max-tokens 64 --stats
  ops batch --model Qwen3-0.6B-Q4_K_M.gguf --chat --json < questions.txt > answers.jsonl
  ops batch --prompts questions.txt --determinism batch --temperature 0
  ops batch --model Llama-3.3-70B-Q4_K_M.gguf --mmap --prompts questions.txt --backend rocm --devices 0,1
  ops batch --prompt 'In the beginning' --prompt 'In the end' --blocks 8 --block-size 4 --stats

Every line is a prompt and becomes a sequence with a number. Sequences join and leave at every step: a step appends one token to each \
sequence that is being continued, and reads prompts of those that have just joined, all in one pass over the weights.

Output: text is printed as [NUMBER] LINE, each line as soon as it is complete. With --json every token is printed immediately:
  {\"sequence\":1,\"event\":\"start\",\"prompt_tokens\":9,\"shared_tokens\":0}
  {\"sequence\":1,\"event\":\"token\",\"id\":262,\"text\":\" the\"}
  {\"sequence\":1,\"event\":\"done\",\"reason\":\"end\",\"ids\":[262,..],\"text\":\" the ..\",\"preemptions\":0}
Reasons: end (the model ended the text), stop (--stop), length (--max-tokens), context (it is full), cancelled, interrupted (Ctrl-C), refused (a \
prompt that does not fit or is not UTF-8; the message says why, and the exit status is 1), failed (its next token cannot be computed, \
likewise). If one of several devices fails, all sequences end as failed, with the tokens that they have.

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
Sequences of these models do not share blocks.";

#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    /// The model: a GGUF file, the first of split ones (-00001-of-0000N.gguf), or a folder with config.json, safetensors files
    /// and tokenizer.json [default: the small model that comes with this project].
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) running: ModelArgs,
    #[command(flatten)]
    pub(crate) on: DevicesArgs,
    /// The file whose lines are the prompts; `-` is standard input, whose lines are read as they arrive.
    /// Empty lines are skipped.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) prompts: PathBuf,
    /// A prompt, instead of a file. May be given several times.
    #[arg(long, value_name = "TEXT", conflicts_with = "prompts")]
    pub(crate) prompt: Vec<String>,
    #[command(flatten)]
    pub(crate) chat: ChatArgs,

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
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Guaranteed determinism: `run` or `batch`. With `batch`, every sequence gives the same tokens as it
    /// would alone, whatever other sequences run with it, however its prompt is split, and on 1, 2, 4 or 8
    /// --devices; steps may take longer.
    #[arg(long, value_name = "LEVEL", default_value_t = Determinism::Run)]
    pub(crate) determinism: Determinism,
}
