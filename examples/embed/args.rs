//! The command line.
use clap::Parser;
use examples_shared::Opening;
use examples_shared::backend::{Activations, Computing, On, Type};
use rocm_ops::Determinism;
use std::path::PathBuf;

/// Turn sentences into vectors with a BERT-style encoder.
///
/// Sentences with similar meaning get vectors with a cosine near 1. Texts come from --prompt, from the lines of a file, or from the
/// lines of standard input; the vectors go to standard output and a summary to standard error.
#[derive(Parser)]
#[command(after_long_help = MODELS)]
pub(crate) struct Args {
    /// The model: a folder with config.json, safetensors files and tokenizer.json, as on the Hugging Face
    /// Hub.
    #[arg(long, value_name = "FOLDER")]
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
    /// Print how similar the texts are, as the cosine of each pair of vectors, instead of the vectors.
    #[arg(long)]
    pub(crate) similarity: bool,
    /// Print one JSON object per text, in order, with all numbers of its vector. Without it, a table shows
    /// the first few.
    #[arg(long)]
    pub(crate) json: bool,
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
Models that run: folders of model_type bert, in f32, f16 or bf16, such as all-MiniLM-L6-v2 and bge-small-en. The \
steps that sentence-transformers runs after the encoder are applied too: modules.json says whether vectors are the mean over the \
tokens or the first token's, and whether they are normalised; sentence_bert_config.json has the maximum length in tokens, to which \
longer texts are truncated. Without these files: the mean, not normalised. Anything else is an error that names the option, tensor or module at \
fault. See docs/run-your-model.md.

Examples:
  embed --model all-MiniLM-L6-v2 --prompt 'A cat sleeps.' 'A dog is asleep.' 'Shares fell.' --similarity
  embed --model all-MiniLM-L6-v2 --prompts sentences.txt --json > vectors.jsonl
  cut -f 2 table.tsv | embed --model bge-small-en-v1.5 --backend rocm --batch 16384 --json";
