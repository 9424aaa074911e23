//! Decodes twice: with a step that is recorded once and replayed, and with steps prepared by the host: `cargo
//! run --release --example replay -- --backend rocm`.
use clap::{Parser, ValueEnum, value_parser};
use ops_command::memory::{self, Copies};
use rocm_ops::gguf::Gguf;
use rocm_ops::model::Sequence;
use rocm_ops::models::{self, Config, Continuation, Continues, Decoder, Pages};
use rocm_ops::ops::*;
use rocm_ops::{Cpu, Determinism, f16};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Decode greedily twice, compare the tokens, and time a step.
///
/// The first time, the host prepares each step. The second time, one step is recorded and replayed for every
/// token; if the backend cannot record it, its calls are made each time, and the reason is printed. A step
/// must at least read the weights of its products and the keys and values so far, so its time is compared
/// with that of a copy of the same number of bytes. Activations are in f16.
#[derive(Parser)]
#[command(after_help = EXAMPLES)]
struct Args {
    /// The model: a GGUF file, the first of split ones, or a folder with config.json and safetensors files [default: the small
    /// model that comes with this project]
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny-llama-kjv-f16.gguf"), hide_default_value = true)]
    model: PathBuf,
    /// Backend to run on
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    backend: On,
    /// Tokens of the prompt; their ids are drawn from a fixed sequence
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..))]
    prompt: u32,
    /// Guaranteed determinism: run or batch
    #[arg(long, value_name = "LEVEL", default_value_t = Determinism::Run)]
    determinism: Determinism,
    /// Tokens to decode in each of the two ways
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..))]
    tokens: u32,
}

const EXAMPLES: &str = "\
Examples:
  replay --backend rocm                                  the small model on a GPU
  replay --backend rocm --model llama-1b-f16.gguf --prompt 512 --tokens 128

Exit status: 0 the tokens agree, 1 they differ, 2 an error.";

#[derive(Clone, Copy, ValueEnum)]
enum On {
    Cpu,
    #[cfg(feature = "rocm")]
    Rocm,
}

fn main() -> ExitCode {
    let args = Args::parse();
    ops_command::end(ops_command::start(None).and_then(|()| run(&args)).map(|same| u8::from(!same)))
}

fn run(args: &Args) -> Result<bool> {
    match args.backend {
        On::Cpu => compare(&Cpu::builder().determinism(args.determinism).build()?, args),
        #[cfg(feature = "rocm")]
        On::Rocm => compare(&rocm_ops::Rocm::builder().determinism(args.determinism).build()?, args),
    }
}

/// Whether both ways draw the same tokens.
fn compare<B: Continues<f16>>(b: &B, args: &Args) -> Result<bool> {
    let copies = Copies { read: true, packed: matches!(args.backend, On::Cpu) };
    let files = models::files(&args.model)?;
    memory::check(&files, copies)?;
    memory::check_device(&files, b.free_memory())?;
    let gguf = models::open(&args.model)?;
    let (prompt, tokens) = (args.prompt as usize, args.tokens as usize);
    let (context, trained) = (prompt + tokens, Config::new(gguf.metadata())?.context);
    if context > trained {
        return Err(
            format!("--prompt and --tokens require {context} tokens; the model supports {trained}").into()
        );
    }
    let model = Decoder::<f16, B>::load(b, &gguf, context)?;
    // Room for both texts.
    const BLOCK: usize = 16;
    let blocks = 2 * context.div_ceil(BLOCK) + 2;
    let mut pages = model.pages(b, blocks, BLOCK)?;
    let [mut text, mut other] = [pages.blocks().sequence(), pages.blocks().sequence()];
    let ids: Vec<u32> = (0..prompt).map(|i| (i * 7919 % model.vocabulary().max(1)) as u32).collect();
    let mut read = |text: &mut Sequence| -> Result<_> {
        Ok(model.sample_paged(b, &mut pages, &mut [(text, &ids)], &[0], Sample::greedy())?)
    };
    // The first run compiles kernels, the second one is timed.
    read(&mut text)?;
    text.truncate(0);
    let begin = Instant::now();
    let first = read(&mut text)?[0]?;
    let prefill = begin.elapsed();
    read(&mut other)?;

    let run = Run { b, model: &model, first, tokens };
    let (prepared, host) = run.prepared(&mut pages, &mut text)?;
    let (continued, device, recorded) = run.continued(&mut pages, &mut other)?;
    let mut out = std::io::stdout();
    let mut line =
        |name, time: Duration| writeln!(out, "{name:<24} {:>9.3} ms a token", time.as_secs_f64() * 1e3);
    line("reading the prompt", prefill / args.prompt)?;
    line("step, host-prepared", host)?;
    line(if recorded { "step, recorded" } else { "step, not recorded" }, device)?;
    let same = prepared == continued;
    if !same {
        ops_command::failed(1);
    }
    writeln!(
        std::io::stdout(),
        "{tokens} tokens in each run, {}",
        if same { "the same" } else { "but different ones" }
    )?;
    // The median step has half of the tokens before it.
    let bytes = weights(&gguf, model.config()) + keys(model.config(), prompt + tokens / 2);
    let copy = copy_time(b, bytes)?;
    line("copy of the same bytes", copy)?;
    let share = copy.as_secs_f64() / device.as_secs_f64() * 100.0;
    writeln!(
        std::io::stdout(),
        "the second kind of step reads {:.2} GB, at {share:.0} % of the copy's rate",
        bytes as f64 / 1e9
    )?;
    Ok(same)
}

/// What both ways have in common.
struct Run<'m, B: Continues<f16>> {
    b: &'m B,
    model: &'m Decoder<f16, B>,
    first: u32,
    tokens: usize,
}

impl<B: Continues<f16>> Run<'_, B> {
    /// The tokens after `text`, with each step prepared by the host, and the median time of a step.
    fn prepared(
        &self,
        pages: &mut Pages<B::Space, f16>,
        text: &mut Sequence,
    ) -> Result<(Vec<u32>, Duration)> {
        let mut last = self.first;
        timed(self.tokens, |step| {
            let rows = &mut [(&mut *text, &[last][..])];
            let drawn = self.model.sample_paged(self.b, pages, rows, &[step], Sample::greedy())?;
            last = drawn[0]?;
            Ok(last)
        })
    }

    /// The same with one step, and whether it was recorded.
    fn continued(
        &self,
        pages: &mut Pages<B::Space, f16>,
        text: &mut Sequence,
    ) -> Result<(Vec<u32>, Duration, bool)> {
        let texts = vec![(text, self.first, 0)];
        let mut more = Continuation::new(self.b, self.model, pages, texts, Sample::greedy(), self.tokens)?;
        if let Some(why) = more.refusal() {
            writeln!(std::io::stdout(), "the step is not recorded: {why}")?;
        }
        let recorded = more.refusal().is_none();
        let (tokens, time) = timed(self.tokens, |_| Ok(more.next_tokens()?[0]?))?;
        Ok((tokens, time, recorded))
    }
}

/// The tokens drawn by the steps, and the median time of a step.
fn timed(steps: usize, mut step: impl FnMut(i64) -> Result<u32>) -> Result<(Vec<u32>, Duration)> {
    let mut times = Vec::with_capacity(steps);
    let mut tokens = Vec::with_capacity(steps);
    for at in 0..steps {
        let begin = Instant::now();
        tokens.push(step(at as i64)?);
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok((tokens, times.get(steps / 2).copied().unwrap_or_default()))
}

/// Bytes of the weights that a step reads: only one row of the embedding table, unless the last product reads
/// it too, and only the experts that a token goes to.
fn weights(gguf: &Gguf, config: &Config) -> u64 {
    let tied = gguf.find("output.weight").is_none();
    let read = gguf.tensors().filter(|tensor| tied || tensor.name() != "token_embd.weight");
    let bytes = read.map(|tensor| {
        let all = tensor.bytes().map_or(0, <[u8]>::len) as u64;
        match &config.experts {
            Some(experts) if tensor.name().contains("_exps.") => {
                all / (experts.count as u64).max(1) * experts.used as u64
            }
            _ => all,
        }
    });
    bytes.sum()
}

/// Bytes of the keys and values of this many tokens, as if every layer kept all of them.
fn keys(config: &Config, tokens: usize) -> u64 {
    let kinds = if config.latent.is_some() { 1 } else { 2 };
    (kinds * size_of::<f16>() * config.layers * config.kv_heads * config.head_dim * tokens) as u64
}

/// The time of a copy of this many bytes, counting reads and writes.
fn copy_time<B: CopyOps + rocm_ops::Backend>(b: &B, bytes: u64) -> Result<Duration> {
    const ROUNDS: u32 = 10;
    let words = usize::try_from(bytes / 8)?.clamp(1, 1 << 28);
    let (from, mut to) = (b.zeros::<u32>(&[words])?, b.zeros::<u32>(&[words])?);
    let mut best = Duration::MAX;
    for _ in 0..3 {
        b.synchronize()?;
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            b.copy_into(&from, &mut to)?;
        }
        b.synchronize()?;
        best = best.min(begin.elapsed() / ROUNDS);
    }
    Ok(best.mul_f64(bytes as f64 / (8 * words) as f64))
}
