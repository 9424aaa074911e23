//! The command line. Its help is the manual, so every command has examples.
use clap::{Args, Parser, Subcommand, ValueEnum};
use ops_gguf::Mixture;
use std::path::PathBuf;

mod batch;
mod embed;
mod generate;
mod text;

pub(crate) use batch::BatchArgs;
pub(crate) use embed::EmbedArgs;
pub(crate) use generate::{GenerateArgs, Overflow, PROMPT};
pub(crate) use text::{ChatArgs, ModelArgs, Rounding};

/// Check, time and explain transformer ops on this machine, and run models with them
#[derive(Debug, Parser)]
#[command(name = "ops", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ops generate --model model.gguf --prompt 'Once upon a time'   continue a text with a model
  ops info                                     describe this build and machine
  ops check                                    check an AMD card and write a report to send
  ops test                                     check every op of the default backend
  ops bench --quick                            see how fast it is, in a few seconds
  ops explain linear --dtype f16 --shape 8,4096   which provider runs this, and why
  ops replay tests/golden*/*.safetensors       replay recorded cases
  ops trace model.gguf --out run.optrace       record the op calls of a model's run
  ops replay run.optrace --backend rocm        check and time each call elsewhere
  ops quantize in.gguf out.gguf --type q4_k_m  make a model smaller
  ops tokenize model.gguf 'Some text.'         see the ids that a model reads
  ops warm --backend rocm model.gguf           compile a model's kernels before its first run

Exit status: 0 fine, 1 a check failed, 2 bad usage or unreadable input.";

/// The options of all commands.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Common {
    /// Which backend to use
    #[arg(long, global = true, value_enum, default_value_t)]
    pub(crate) backend: Choice,
    /// Write one JSON object per line instead of text (docs/json.md describes the fields)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show progress on standard error even if it is not a terminal
    #[arg(long, global = true)]
    pub(crate) progress: bool,
}

/// The available backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// Threaded and vectorised, on this machine's CPU
    #[default]
    Cpu,
    /// The oracle: plain loops in f64
    Reference,
    /// The CPU, each op compared with the reference as it runs (`generate`, `batch` and `embed`)
    Checked,
    /// AMD GPUs
    Rocm,
}

impl Choice {
    /// The name of the backend.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Choice::Cpu => "cpu",
            Choice::Reference => "reference",
            Choice::Checked => "checked",
            Choice::Rocm => "rocm",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Generate text with a model
    #[command(after_help = generate::EXAMPLES, after_long_help = generate::models_that_run())]
    Generate(GenerateArgs),
    /// Continue many texts at once with a model, over a paged cache
    #[command(after_help = batch::EXAMPLES)]
    Batch(BatchArgs),
    /// Turn sentences into vectors with an encoder, such as BERT, or with a decoder that was trained for it
    #[command(after_help = embed::EXAMPLES)]
    Embed(EmbedArgs),
    /// Describe this build and this machine
    #[command(after_help = "Example:\n  ops info --json")]
    Info,
    /// Check a card in three minutes and write a report to send
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Run the suite that every backend must pass
    #[command(after_help = TEST_EXAMPLES)]
    Test(TestArgs),
    /// Time every op, compared with what the machine can do
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Show which provider would run an op on given shapes, and why
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Record every op call of a model's run
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(TraceArgs),
    /// Replay golden cases (op calls in files, with results from another implementation) and traces
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Measure launch parameters on this machine's GPU, and store those that are faster
    #[command(after_help = TUNE_EXAMPLES)]
    Tune(TuneArgs),
    /// Compile the kernels that a model uses, before its first run
    #[command(after_help = WARM_EXAMPLES)]
    Warm(WarmArgs),
    /// Write a model file with its weights quantized
    #[command(after_help = QUANTIZE_EXAMPLES)]
    Quantize(QuantizeArgs),
    /// Print the token ids of a text, or the text of ids
    #[command(after_help = TOKENIZE_EXAMPLES)]
    Tokenize(TokenizeArgs),
    /// Show which ops run in which element types, and which provider runs them
    #[command(after_help = "Examples:\n  ops support\n  ops support --op attention\n  ops support --json")]
    Support(SupportArgs),
}

const CHECK_EXAMPLES: &str = "\
Examples:
  ops check                   three minutes: is the card used, is it right, how fast is it
  ops check --level 0         two seconds, without a call to the GPU
  ops check --level 2         ten minutes: golden cases, and whole suites instead of one case in eight
  ops check --out /tmp/card   where to write report.json and report.md

Level 1 runs, each in a process of its own with a time limit, so that one that dies or hangs is a result: a survey of the
libraries and devices, the card's matrix units, the greedy tokens of a small model on the card and on the CPU, a short
benchmark with the card's own limits beside it, and the suite op by op. What the time did not allow is listed as not run.
Names of the user, the home folder and the host are left out. Exit status: 0 all that ran is right, 1 something failed,
2 no card could be checked.";

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// How thorough: 0, 1 or 2
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) level: u8,
    /// The folder of report.json and report.md
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) out: PathBuf,
    /// The model whose tokens are compared (default: the one that comes with this program)
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Run the suite of these ops only
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) op: Vec<String>,
    /// Leave out these steps: matrix_units, tokens, links, bench
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    pub(crate) skip: Vec<String>,
    /// The longest time of one step
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) step_seconds: u64,
    /// Keep the names of user, home folder and host
    #[arg(long)]
    pub(crate) unredacted: bool,
    /// Run one step only, as the processes that this command starts do
    #[arg(long, hide = true)]
    pub(crate) step: Option<CheckStep>,
}

/// A step that is no command by itself.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CheckStep {
    Tokens,
    Links,
}

const TOKENIZE_EXAMPLES: &str = "Tokens that begin or end every text are added as for a prompt.\n\nExamples:
  ops tokenize Qwen3-0.6B 'Some text.' --json    ids, and the tokens as they stand in the vocabulary
  ops tokenize model.gguf --decode 5,17,3        the text of ids";

#[derive(Debug, Args)]
pub(crate) struct TokenizeArgs {
    /// A GGUF file, or a folder with tokenizer.json
    pub(crate) model: PathBuf,
    /// Texts, one line of ids for each; without any, standard input without its last line break
    pub(crate) text: Vec<String>,
    /// Print the text of these ids, or of those on standard input, separated by commas or spaces
    #[arg(long, value_name = "IDS", num_args = 0..=1, default_missing_value = "")]
    pub(crate) decode: Option<String>,
    /// Texts of special tokens stand for these tokens; with --decode, print them
    #[arg(long)]
    pub(crate) special: bool,
}

const TEST_EXAMPLES: &str = "\
Examples:
  ops test                             every op, against the reference
  ops test --op softmax                one op
  ops test --op matrix_units --backend rocm   only the GPU's matrix instructions, on known products
  ops test --report cpu.json           also write machine, counts, failures and timings to a file
  ops test --rows --backend rocm       whether a row has the same bits with other rows and alone

Each op's line is written when its cases have run. With --progress the name of each case is written to
standard error before it runs, so that the last one is known if the process dies.
Every op runs on many shapes, strided views, all element types, and unusual values. `unsupported` counts
cases that the backend declines to run; these are not failures. Exit status 1 if anything failed.

--rows requires determinism `batch` from the backend. It runs each small case, then again with fewer of its rows,
which must have the same bits as before. The line before the last counts these calls. Larger cases are
`unsupported`; a case with a single row runs once.";

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Check that the bits of a row do not depend on the other rows of a call
    #[arg(long)]
    pub(crate) rows: bool,
    /// Only this op; `matrix_units` for the GPU's matrix instructions
    #[arg(long, value_name = "NAME")]
    pub(crate) op: Option<String>,
    /// One case in eight
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write a JSON document with all results, even if the device cannot be opened
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  ops bench                            every op, about a minute
  ops bench --quick                    every op, one small size each
  ops bench --op matmul --dtype f16    one op in one type
  ops bench --op add --sizes 1K,1M,256M
  ops bench --op qlinear --dtype f16,weight=q4_k --shape 1,4096 --shape weight=14336,16 --rotate 512M
  ops bench --json > cpu.jsonl         one object per line, for comparing runs

Shapes and types are written as for `ops explain`: 1,4096 is the first operand, the others
follow; f32,weight=q8_0 runs in f32 on a q8_0 weight. In JSON: op, dtype, shape (of the first
operand), backend, provider, ns, gbps, gflops, ceiling (in the unit of the limit), percent (of it),
limit (bandwidth or compute), bytes, flops, checked (values compared with the reference).

Each problem is first compared with the reference within the op's own tolerance (large ones in part),
then timed: the median of many rounds, with outputs allocated once, including the wait for the backend.
With --rotate a round is one call on each of many sets of operands and a single wait, and the copy that
it is compared with moves the same number of bytes.

GB/s counts every input and every output once. GFLOP/s counts additions, multiplications,
comparisons and elementary functions in the op's formula. The limit is whichever of the two takes
longer at the ceilings, which are measured in the same run with as many threads as the backend uses:
a copy that moves the same number of bytes (read and written together), and fused multiply-adds in
registers, in f32 (in f64 for f64). Kernels that use dot-product instructions of narrow types may
exceed the latter.";

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Only these ops
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) op: Vec<String>,
    /// Only these element types (default: f32, and f16, bf16 and blocks where models use them). With one type
    /// and --op, OPERAND=TYPE sets the type of another operand
    #[arg(long, value_name = "[OPERAND=]TYPE", value_delimiter = ',')]
    pub(crate) dtype: Vec<String>,
    /// Bytes of a tensor, 1K to 256M for example; of a matrix for products, of the keys for attention
    /// (default: 64K,4M,64M, and fixed shapes of products and attention)
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub(crate) sizes: Vec<String>,
    /// Extents of the first operand; OPERAND=D,D,... for another one. Requires --op
    #[arg(long, value_name = "[OPERAND=]D,D,...", requires = "op", conflicts_with = "sizes")]
    pub(crate) shape: Vec<String>,
    /// Rotate through sets of operands that together fill SIZE, waiting once per round: operands then come
    /// from memory, not from a cache
    #[arg(long, value_name = "SIZE")]
    pub(crate) rotate: Option<String>,
    /// Small problems only, timed briefly
    #[arg(long)]
    pub(crate) quick: bool,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  ops explain rms_norm --dtype f16 --shape 8,4096
  ops explain linear --dtype f32 --dtype weight=f16 --shape 1,4096 --shape weight=11008,4096
  ops explain attention --dtype bf16 --shape 1,32,1,128 --shape k=1,8,4096,128

A bare --shape is that of the first operand; the others follow from it, and --shape OPERAND=... sets
one of them, or adds an optional one such as mask or bias. A bare --dtype is the type the op runs in.
Nothing is allocated, so any shape works.";

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The op
    #[arg(value_name = "OP")]
    pub(crate) op: String,
    /// Element type the op runs in; OPERAND=TYPE for an operand of another type
    #[arg(long, value_name = "[OPERAND=]TYPE")]
    pub(crate) dtype: Vec<String>,
    /// Extents of the first operand; OPERAND=D,D,... for another one
    #[arg(long, value_name = "[OPERAND=]D,D,...")]
    pub(crate) shape: Vec<String>,
    /// GPU to explain for, such as gfx942 (default: the device present, otherwise gfx1100)
    #[arg(long, value_name = "NAME")]
    pub(crate) gfx: Option<String>,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  ops replay tests/golden*/*.safetensors
  ops replay --backend reference --strict case.safetensors
  ops replay --backend rocm run.optrace

Golden cases: one line per case, written as soon as it has run: op, type, shape of the first operand, status, and for
the worst output its error and limit. With --progress the file of each case is written to standard error before it
runs. The status is ok, fail, unsupported (by this backend or by all) or error. The last line
counts them. Exit status 1 if a case failed or ended in an error, 2 if a file cannot be read.

Traces, as `ops trace` writes them: each call runs once on its recorded inputs, or on seeded ones that keep
integers within the recorded bounds, and is compared with the reference within the op's tolerance (large calls
in part). One row per op, types and shapes: calls in the run, time per call (outputs allocated once,
including the wait), share of the run, floor (at the machine's ceilings, as in `ops bench`), the worst
error with its limit, and the verdict. Weights are not packed. A call that this build does not know is
unsupported. In JSON: file, op, dtype, shape, operands, backend, provider, calls, distinct, ns, total_ns,
share, floor_ns, bound (bandwidth or compute), checked, nmse, limit, status, reason.";

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Count unsupported cases as failures
    #[arg(long)]
    pub(crate) strict: bool,
    /// Maximum number of bytes for the operands of a traced call
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    pub(crate) memory: String,
    /// Files with golden cases, and traces
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

const TRACE_EXAMPLES: &str = "\
Examples:
  ops trace model.gguf --out run.optrace                     shapes only, small: 16 tokens, then 4 more
  ops trace model.gguf --out run.optrace --inputs            with the bytes of all operands, weights included
  ops trace Qwen3-0.6B --out run.optrace --dtype bf16 --prompt-ids 9707,11,1879 --tokens 16
  ops replay run.optrace --backend rocm                      check and time the calls on a GPU

Runs a decoder on the CPU (--backend cpu or reference): the prompt in one step, then each token of greedy
decoding in a separate step. Records for each call: op, options, types, shapes, strides, and for integers
such as token ids their values or bounds. Prompts are ids because this command has no tokenizer. OUT appears
when it is complete, or not at all. docs/optrace.md describes the format.
In JSON: file, calls, distinct, bytes, not_recorded.";

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The model: a GGUF file, the first of split ones, or a folder with config.json and safetensors
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// The file to write
    #[arg(long, value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Token ids of the prompt (default: 1 to 16)
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) prompt_ids: Vec<u32>,
    /// Tokens to decode after the prompt
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) tokens: usize,
    /// Element type of the activations
    #[arg(long, value_enum, default_value_t)]
    pub(crate) dtype: Activations,
    /// Record the bytes of all operands that are read
    #[arg(long)]
    pub(crate) inputs: bool,
}

const TUNE_EXAMPLES: &str = "\
Examples:
  ops tune --backend rocm                      everything, about a minute
  ops tune --backend rocm --op attention       the values that attention depends on
  ops tune --backend rocm --dry-run --json     measure only
  ops tune --backend rocm --trace run.optrace  which library is fastest for each call of a model's run

The default values come from a table by architecture. Each candidate is timed on this project's kernels, with sizes
that grow until they fill the given time; a candidate replaces the default if it is at least 3 % faster. Values are
stored next to the compiled kernels (OPS_ROCM_CACHE), for this device and this version only; delete the file to
return to the table.

With --trace, every provider that can compute a call of the trace (as `ops trace` writes it) is checked against the
reference and then timed, and the order that won is stored, by op, types and class of shape. `ops explain` then says
what was measured. A policy overrides it, OPS_ROCM_TUNED=off ignores all that is stored, and a row no longer counts
once one of its libraries has another version. At the determinism levels batch and exact it is not used.
In JSON: op, class, ns (provider and time, fastest first), device, stored; without --trace: knob, op, what, before, before_ns, after, after_ns, measured (value and ns of each candidate),
device, stored (the file, or null).";

#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// Only the values that this op's time depends on
    #[arg(long, value_name = "NAME")]
    pub(crate) op: Option<String>,
    /// Compare the providers of the calls in these traces, instead of launch parameters
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) trace: Vec<PathBuf>,
    /// Measure, but store nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Milliseconds to spend on each candidate
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub(crate) budget_ms: u64,
}

const WARM_EXAMPLES: &str = "\
Examples:
  ops warm --backend rocm model.gguf                   activations in f16, a prompt of 512 tokens
  ops warm --backend rocm model.gguf --tokens 16,512   short prompts too
  ops warm --backend rocm model.gguf --json            name, origin and seconds of each unit of kernels

Kernels are compiled on first use and cached (OPS_ROCM_CACHE), so this pays off once per GPU and version. Which
kernels a model uses follows from the front of its file; no weight is read and no kernel runs. The model must be a
decoder of the Llama family. Several units are compiled at a time, each in a separate process.";

#[derive(Debug, Args)]
pub(crate) struct WarmArgs {
    /// The model, a GGUF file
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Element type of the activations
    #[arg(long, value_enum, default_value_t)]
    pub(crate) dtype: Activations,
    /// Lengths of prompts, in tokens
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "512")]
    pub(crate) tokens: Vec<usize>,
    /// Tokens before the one that is generated
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) context: usize,
}

const QUANTIZE_EXAMPLES: &str = "\
Examples:
  ops quantize model-f16.gguf model-q4_k_m.gguf --type q4_k_m
  ops quantize model-f16.gguf model-q6_k.gguf --type q6_k --dry-run   only say what each tensor becomes
  ops quantize model-bf16.gguf model-q8_0.gguf --type q8_0 --backend rocm

A type ending in _s or _m is a mixture: most matrices get its format, the most sensitive ones get more bits.
From smallest to largest: q2_k, q3_k_m, q4_k_s, q4_k_m, q5_k_m, q6_k, q8_0; q4_k_m is a good choice to start with. Vectors, norms
and routers keep their types. A row whose length is not a multiple of 256 gets blocks of 32 instead of 256 (q5_0
for q4_k, q5_1 for q5_k, q8_0 for q6_k, iq4_nl for q2_k, q3_k and iq4_xs); one whose length is not a multiple
of 32 becomes f16. IN must be in f32, f16 or bf16. OUT appears when it is complete, or not at all.
In JSON, one object per tensor: tensor, shape, from, to, bytes_before, bytes_after.";

#[derive(Debug, Args)]
pub(crate) struct QuantizeArgs {
    /// The model, a GGUF file
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The file to write
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// The type of the weights
    #[arg(long = "type", value_name = "TYPE", value_parser = mixture)]
    pub(crate) mixture: Mixture,
    /// Write nothing, only list the type that each tensor would get
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn mixture(name: &str) -> Result<Mixture, String> {
    Mixture::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Mixture::all().map(Mixture::name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Element types that decoders compute in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Activations {
    F32,
    #[default]
    F16,
    Bf16,
}

#[derive(Debug, Args)]
pub(crate) struct SupportArgs {
    /// Only this op
    #[arg(long, value_name = "NAME")]
    pub(crate) op: Option<String>,
}
