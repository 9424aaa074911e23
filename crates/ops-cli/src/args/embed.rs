//! The options of `ops embed`.
use super::text::ModelArgs;
use clap::Args;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  ops embed --model all-MiniLM-L6-v2 --prompt 'A cat sleeps.' 'A dog is asleep.' 'Shares fell.' --similarity
  ops embed --model all-MiniLM-L6-v2 --prompts sentences.txt --json > vectors.jsonl
  ops embed --model nomic-embed-text-v1.5 --prompt-name query --dims 256 --prompt 'Who wrote Faust?' --json
  cut -f 2 table.tsv | ops embed --model bge-small-en-v1.5 --backend rocm --batch 16384 --json

Sentences with similar meaning get vectors with a cosine near 1. Texts come from --prompt, from the lines of a file, or from the lines of \
standard input; the vectors go to standard output and a summary to standard error. A table shows the first few numbers of each vector; \
--json prints one object per text, in order, with all of them.

Models that run: BERT (all-MiniLM-L6-v2, bge-small-en), XLM-RoBERTa (bge-m3, multilingual-e5), Nomic BERT, ModernBERT, Jina v3, \
EmbeddingGemma, and decoders whose files say how to pool, such as Qwen3-Embedding. The steps that sentence-transformers runs after the \
encoder are applied too: modules.json says whether vectors are the mean over the tokens, or the first or last token's, and whether they \
are normalised; sentence_bert_config.json has the maximum length in tokens, to which longer texts are truncated. Without these files: \
the mean, not normalised. Anything else is an error that names the option, tensor or module at fault. See docs/run-your-model.md.";

#[derive(Debug, Args)]
pub(crate) struct EmbedArgs {
    /// The model: a GGUF file, or a folder with config.json, safetensors files and tokenizer.json, as on the Hugging Face
    /// Hub.
    #[arg(long, value_name = "PATH")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) running: ModelArgs,
    /// Texts to embed, each of which may have several lines.
    #[arg(long, value_name = "TEXT", num_args = 1..)]
    pub(crate) prompt: Vec<String>,
    /// Embed each line of a file, or of standard input if this is `-`; empty lines are skipped. Without this
    /// option and without --prompt, standard input is read.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) prompts: Option<PathBuf>,
    /// Embed texts given as token ids, such as `2,17,3`, each as it is: nothing is added to them. Needs no tokenizer.
    #[arg(long, value_name = "IDS", num_args = 1.., conflicts_with_all = ["prompt", "prompts", "prompt_name"])]
    pub(crate) prompt_ids: Vec<String>,
    /// Turn the text of control tokens, such as `[SEP]`, into these tokens. Use it only for trusted text: without it, such text is text.
    #[arg(long, conflicts_with = "prompt_ids")]
    pub(crate) parse_special: bool,
    /// Put one of the model's prompts before each text, by its name in config_sentence_transformers.json: models that search have one
    /// for queries and one for documents. Without this option, the model's default prompt is used, if it has one.
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt_name: Option<String>,
    /// Keep only the first numbers of each vector, for models that were trained for shorter ones. If the model's vectors are
    /// normalised, the shorter ones are, too.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) dims: Option<u32>,
    /// Print how similar the texts are, as the cosine of each pair of vectors, instead of the vectors.
    #[arg(long)]
    pub(crate) similarity: bool,
    /// Write all vectors to a file that NumPy reads, an array of f32 with a row for each text, instead of printing them.
    #[arg(long, value_name = "FILE", conflicts_with = "similarity")]
    pub(crate) npy: Option<PathBuf>,
    /// Number of tokens that go through the model together. Larger values suit GPUs; on the CPU, choose as
    /// many as fit its caches.
    #[arg(long, value_name = "TOKENS", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,
    /// Compute everything this many times and report the fastest: for measurements.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
}
