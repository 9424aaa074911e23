//! The command line.
use clap::Parser;
use examples_shared::Opening;
use examples_shared::backend::{Activations, Computing, On, Type};
use rocm_ops::Determinism;
use std::path::PathBuf;

/// Turn sentences into vectors with an encoder, such as BERT, or with a decoder that was trained for it.
///
/// Sentences with similar meaning get vectors with a cosine near 1. Texts come from --prompt, from the lines of a file, or from the
/// lines of standard input; the vectors go to standard output and a summary to standard error.
#[derive(Parser)]
#[command(after_long_help = MODELS)]
pub(crate) struct Args {
    /// The model: a GGUF file, or a folder with config.json, safetensors files and tokenizer.json, as on the Hugging Face
    /// Hub.
    #[arg(long, value_name = "PATH")]
    pub(crate) model: PathBuf,
    /// Map the model's files into memory instead of reading them: starts at once and shares memory with other
    /// programs. The files must not be changed or truncated while this runs.
    #[arg(long)]
    pub(crate) mmap: bool,
    /// Run a folder whose config.json has options that this program does not know, with a warning. Results may differ from those
    /// of the model's authors.
    #[arg(long)]
    pub(crate) allow_unknown_options: bool,
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
    /// Print one JSON object per text, in order, with all numbers of its vector. Without it, a table shows
    /// the first few.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write all vectors to a file that NumPy reads, an array of f32 with a row for each text, instead of printing them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "similarity"])]
    pub(crate) npy: Option<PathBuf>,
    /// Number of tokens that go through the model together. Larger values suit GPUs; on the CPU, choose as
    /// many as fit its caches.
    #[arg(long, value_name = "TOKENS", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,
    /// Backend to run on; `checked` compares every op on the CPU with the reference, `rocm` is an AMD GPU.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    pub(crate) backend: On,
    /// Type of the activations. Weights keep their type in the file.
    #[arg(long, value_enum, default_value_t = Type::F32)]
    pub(crate) dtype: Type,
    /// Compute everything this many times and report the fastest: for measurements.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// At the end, write to standard error: memory, and calls and time of each op; on an AMD GPU also its
    /// provider.
    #[arg(long)]
    pub(crate) stats: bool,
}

impl Args {
    /// How the model is opened.
    pub(crate) fn opening(&self) -> Opening {
        Opening { map: self.mmap, allow_unknown_options: self.allow_unknown_options, on: self.backend }
    }
    /// How the model is run. Encoders have no quantized weights.
    pub(crate) fn computing(&self) -> Computing {
        Computing {
            on: self.backend,
            dtype: self.dtype,
            determinism: Determinism::Run,
            activations: Activations::Rounded,
            stats: self.stats,
        }
    }
}

const MODELS: &str = "\
Models that run: BERT (all-MiniLM-L6-v2, bge-small-en), XLM-RoBERTa (bge-m3, multilingual-e5), Nomic BERT, ModernBERT, Jina v3, \
EmbeddingGemma, and decoders whose files say how to pool, such as Qwen3-Embedding. The steps that sentence-transformers runs after the \
encoder are applied too: modules.json says whether vectors are the mean over the tokens, or the first or last token's, and whether they \
are normalised; sentence_bert_config.json has the maximum length in tokens, to which longer texts are truncated. Without these files: \
the mean, not normalised. Anything else is an error that names the option, tensor or module at fault. See docs/run-your-model.md.

Examples:
  embed --model all-MiniLM-L6-v2 --prompt 'A cat sleeps.' 'A dog is asleep.' 'Shares fell.' --similarity
  embed --model all-MiniLM-L6-v2 --prompts sentences.txt --json > vectors.jsonl
  embed --model nomic-embed-text-v1.5 --prompt-name query --dims 256 --prompt 'Who wrote Faust?' --json
  cut -f 2 table.tsv | embed --model bge-small-en-v1.5 --backend rocm --batch 16384 --json";
