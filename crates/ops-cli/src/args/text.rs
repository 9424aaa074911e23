//! Options that `generate`, `batch` and `embed` share.
use super::Activations;
use clap::{Args, ValueEnum};
use ops_models::{GenerateOptions, Overflow};
use std::path::PathBuf;

/// How a model is opened and computed.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArgs {
    /// Map the model's files into memory instead of reading them: starts at once and shares memory with other
    /// programs. The files must not be changed or truncated while this runs.
    #[arg(long)]
    pub(crate) mmap: bool,
    /// Run a folder whose config.json has options that this program does not know, with a warning. Results may differ from those
    /// of the model's authors.
    #[arg(long)]
    pub(crate) allow_unknown_options: bool,
    /// Type of the activations. Weights keep their type in the file.
    #[arg(long, value_enum, default_value_t = Activations::F32)]
    pub(crate) dtype: Activations,
    /// At the end, write to standard error: memory, and calls and time of each op; on an AMD GPU also its
    /// provider.
    #[arg(long)]
    pub(crate) stats: bool,
}

/// What a model is divided over.
#[derive(Clone, Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Divide the model over several devices, by their numbers in `ops info`: each reads and computes its part of every layer
    /// (docs/multi-gpu.md). With --determinism batch, 1, 2, 4 and 8 devices give the same tokens. With --backend cpu, each number stands
    /// for a part of the threads, which is slower than one and only useful for tests.
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub(crate) devices: Vec<u32>,
}

/// What quantized weights are multiplied by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rounding {
    #[default]
    Rounded,
    Exact,
}

/// How texts are continued.
#[derive(Clone, Debug, Args)]
pub(crate) struct SamplingArgs {
    /// End the text before this one appears in it. May be given several times.
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
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
    /// Sample from only the tokens that are at least this times as likely as the most likely one.
    #[arg(long, value_parser = probability, allow_negative_numbers = true)]
    pub(crate) min_p: Option<f64>,
    /// Divide the positive logits of recent tokens by this, and multiply the negative ones: 1.1 makes repetition less likely.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = positive, allow_negative_numbers = true)]
    pub(crate) repeat_penalty: f64,
    /// Subtract this from the logits of recent tokens.
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = finite, allow_negative_numbers = true)]
    pub(crate) presence_penalty: f64,
    /// Subtract this from the logits of recent tokens as often as they occur.
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = finite, allow_negative_numbers = true)]
    pub(crate) frequency_penalty: f64,
    /// How many tokens are recent, those of the prompt included: the penalties apply to these.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) repeat_last_n: usize,
    /// Add X to the logit of this id; -inf forbids it. May be given several times.
    #[arg(long, value_name = "ID=X", value_parser = bias)]
    pub(crate) logit_bias: Vec<(u32, f32)>,
    /// Seed of the sampler. The same seed gives the same text, alone or with others, on every backend that computes the same
    /// logits.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// What quantized weights are multiplied by on the CPU: activations rounded to 8 bits, as in llama.cpp, or the activations as they
    /// are. Rounded is faster. Where two tokens are almost equally likely, it can change which is generated.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) activations: Rounding,
    /// Do not record steps: the host makes every call. By default, the rocm backend records a step of one token per text when it
    /// repeats, and replays it. Nothing is recorded with --stats, whose table counts calls, with several devices, and for several prompts of
    /// one `generate`.
    #[arg(long)]
    pub(crate) no_recording: bool,
}

impl SamplingArgs {
    /// The options of the library.
    pub(crate) fn options(&self, max_tokens: usize, overflow: Overflow) -> GenerateOptions {
        GenerateOptions {
            max_tokens,
            stop: self.stop.clone(),
            ignore_eos: self.ignore_eos,
            overflow,
            temperature: self.temperature,
            top_k: self.top_k.filter(|k| *k > 0),
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            repeat_last_n: self.repeat_last_n,
            logit_bias: self.logit_bias.clone(),
            seed: self.seed,
        }
    }

    /// Whether steps are recorded where the backend can.
    pub(crate) fn records(&self, running: &ModelArgs) -> bool {
        !(self.no_recording || running.stats)
    }

    /// Maximum number of tokens in a text of a model that was trained for this many.
    pub(crate) fn context(&self, trained: usize) -> usize {
        self.context.map_or(trained, |n| trained.min(n as usize))
    }
}

/// The options of a conversation.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChatArgs {
    /// Make each prompt a message to a chat model: the model's own template wraps it in the tokens of a
    /// conversation, and only the answer is printed. Special tokens in the message count as such.
    #[arg(long)]
    pub(crate) chat: bool,
    /// A system message before the prompt.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    pub(crate) system: Option<String>,
    /// A conversation so far: a JSON array of messages, each an object with a role and a content. A prompt is added as the user's
    /// next message.
    #[arg(long, value_name = "FILE", requires = "chat", conflicts_with = "system")]
    pub(crate) messages: Option<PathBuf>,
    /// Tools that the model may call: a JSON array of functions with JSON schemas.
    #[arg(long, value_name = "FILE", requires = "chat")]
    pub(crate) tools: Option<PathBuf>,
    /// A variable of the template, such as enable_thinking=false. The value is JSON, or else a string. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", requires = "chat", value_parser = template_arg)]
    pub(crate) template_arg: Vec<(String, String)>,
}

fn template_arg(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_name {
        Ok((name.to_owned(), value.to_owned()))
    } else {
        Err(format!("{name:?} is no name of a variable"))
    }
}

fn temperature(text: &str) -> Result<f64, String> {
    number(text, "a finite number, 0 or larger", |t| t >= 0.0 && t.is_finite())
}
fn probability(text: &str) -> Result<f64, String> {
    number(text, "a number above 0 and at most 1", |p| p > 0.0 && p <= 1.0)
}
fn positive(text: &str) -> Result<f64, String> {
    number(text, "a finite number above 0", |x| x > 0.0 && x.is_finite())
}
fn finite(text: &str) -> Result<f64, String> {
    number(text, "a finite number", f64::is_finite)
}
fn number(text: &str, want: &str, fits: fn(f64) -> bool) -> Result<f64, String> {
    text.parse().ok().filter(|n| fits(*n)).ok_or_else(|| format!("expected {want}"))
}
fn bias(text: &str) -> Result<(u32, f32), String> {
    let parsed =
        text.split_once('=').and_then(|(id, x)| Some((id.trim().parse().ok()?, x.trim().parse().ok()?)));
    parsed.ok_or_else(|| "expected ID=X, an id and a number, such as 17=-2.5".to_owned())
}
