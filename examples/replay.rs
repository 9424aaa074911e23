//! Decodes twice: with a step that is recorded once and replayed, and with steps prepared by the host: `cargo
//! run --release --example replay -- --backend rocm`.
use clap::{Parser, ValueEnum, value_parser};
use ops_command::memory::{self, Copies};
use rocm_ops::gguf::Gguf;
use rocm_ops::group::Group;
use rocm_ops::model::Sequence;
use rocm_ops::models::{self, Config, Continuation, Continues, Decoder, Pages, Rank, on_ranks};
use rocm_ops::ops::*;
use rocm_ops::{Cpu, Determinism, HostGroup, f16};
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
/// with that of a copy of the same number of bytes. Activations are in f16. With several devices, each has a part of the model, and the
/// figures are those of the first one.
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
    /// Divide the model over these devices, by their numbers in `ops info`; on the CPU, each number stands for a share of the threads
    #[arg(long, value_name = "N", value_delimiter = ',', num_args = 1)]
    devices: Vec<u32>,
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
  replay --backend rocm --model llama-1b-f16.gguf --devices 0,1

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
    let copies = Copies { read: true, packed: matches!(args.backend, On::Cpu) };
    let files = models::files(&args.model)?;
    memory::check(&files, copies)?;
    let gguf = models::open(&args.model)?;
    let (context, trained) = (args.context(), Config::new(gguf.metadata())?.context);
    if context > trained {
        return Err(
            format!("--prompt and --tokens require {context} tokens; the model supports {trained}").into()
        );
    }
    let measured = match args.backend {
        On::Cpu => {
            let ranks = args.devices.len().max(1);
            let threads = std::thread::available_parallelism().map_or(1, usize::from) / ranks;
            let cpu = Cpu::builder().determinism(args.determinism).threads(threads.max(1));
            let queues = (0..ranks).map(|_| cpu.build()).collect::<rocm_ops::Result<_>>()?;
            measure_on(HostGroup::of(queues)?, &gguf, args)?
        }
        #[cfg(feature = "rocm")]
        On::Rocm => {
            use rocm_ops::rocm::{Rocm, RocmGroup};
            let queue =
                |ordinal: &u32| Rocm::builder().ordinal(*ordinal).determinism(args.determinism).build();
            let devices = if args.devices.is_empty() { &[0][..] } else { &args.devices };
            let queues = devices.iter().map(queue).collect::<rocm_ops::Result<Vec<_>>>()?;
            if let [one] = &queues[..] {
                memory::check_device(&files, rocm_ops::Backend::free_memory(one))?;
                measure_on(HostGroup::of(queues)?, &gguf, args)?
            } else {
                measure_on(RocmGroup::of(queues)?, &gguf, args)?
            }
        }
    };
    measured.print(args)?;
    if !measured.same {
        ops_command::failed(1);
    }
    Ok(measured.same)
}

impl Args {
    /// Tokens of the prompt and after it.
    fn context(&self) -> usize {
        (self.prompt + self.tokens) as usize
    }
}

/// What was measured on the first device.
struct Measured {
    prefill: Duration,
    prepared: Duration,
    continued: Duration,
    /// Why the step was not recorded.
    refusal: Option<String>,
    /// Whether both ways drew the same tokens.
    same: bool,
    /// What a step reads on one device, and the time of its copy.
    bytes: u64,
    copy: Duration,
}

impl Measured {
    fn print(&self, args: &Args) -> std::io::Result<()> {
        let mut out = std::io::stdout();
        if let Some(why) = &self.refusal {
            writeln!(out, "the step is not recorded: {why}")?;
        }
        let mut line =
            |name, time: Duration| writeln!(out, "{name:<24} {:>9.3} ms a token", time.as_secs_f64() * 1e3);
        line("reading the prompt", self.prefill / args.prompt)?;
        line("step, host-prepared", self.prepared)?;
        line(if self.refusal.is_none() { "step, recorded" } else { "step, not recorded" }, self.continued)?;
        line("copy of the same bytes", self.copy)?;
        let same = if self.same { "the same" } else { "but different ones" };
        let share = self.copy.as_secs_f64() / self.continued.as_secs_f64() * 100.0;
        writeln!(
            out,
            "{} tokens in each run, {same}\nthe second kind of step reads {:.2} GB, at {share:.0} % of the copy's rate",
            args.tokens,
            self.bytes as f64 / 1e9
        )
    }
}

/// Measures on the ranks of a group.
fn measure_on<G: Group>(ranks: Vec<G>, gguf: &Gguf, args: &Args) -> models::Result<Measured>
where
    G::Backend: Continues<f16>,
{
    let each = |rank: &Rank<'_, G::Backend>| measure(rank, gguf, args);
    on_ranks(ranks, args.determinism, each, |rank| each(rank).map(drop))
}

fn measure<B: Continues<f16>>(rank: &Rank<'_, B>, gguf: &Gguf, args: &Args) -> models::Result<Measured> {
    let (b, context, tokens) = (rank.backend(), args.context(), args.tokens as usize);
    let config = Config::new(gguf.metadata())?;
    let model = Decoder::<f16, B>::load_share(b, gguf, config, context, rank.share(), &mut |_, _| ())?;
    // Room for both texts.
    const BLOCK: usize = 16;
    let blocks = 2 * context.div_ceil(BLOCK) + 2;
    let mut pages = model.pages(b, blocks, BLOCK)?;
    let [mut text, mut other] = [pages.blocks().sequence(), pages.blocks().sequence()];
    let ids: Vec<u32> =
        (0..args.prompt as usize).map(|i| (i * 7919 % model.vocabulary().max(1)) as u32).collect();
    let mut read = |text: &mut Sequence| -> models::Result<u32> {
        Ok(model.sample_paged(b, &mut pages, &mut [(text, &ids)], &[0], Sample::greedy())?[0]?)
    };
    // The first run compiles kernels, the second one is timed.
    read(&mut text)?;
    text.truncate(0);
    let begin = Instant::now();
    let first = read(&mut text)?;
    let prefill = begin.elapsed();
    read(&mut other)?;

    let run = Run { b, model: &model, first, tokens };
    let (before, prepared) = run.prepared(&mut pages, &mut text)?;
    let (after, continued, refusal) = run.continued(&mut pages, &mut other)?;
    // The median step has half of the tokens before it.
    let all = weights(gguf, model.config()) + keys(model.config(), context - tokens / 2);
    let bytes = all / rank.share().ranks() as u64;
    let copy = copy_time(b, bytes)?;
    Ok(Measured { prefill, prepared, continued, refusal, same: before == after, bytes, copy })
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
    ) -> models::Result<(Vec<u32>, Duration)> {
        let mut last = self.first;
        timed(self.tokens, |step| {
            let rows = &mut [(&mut *text, &[last][..])];
            last = self.model.sample_paged(self.b, pages, rows, &[step], Sample::greedy())?[0]?;
            Ok(last)
        })
    }

    /// The same with one step, and why it was not recorded.
    fn continued(
        &self,
        pages: &mut Pages<B::Space, f16>,
        text: &mut Sequence,
    ) -> models::Result<(Vec<u32>, Duration, Option<String>)> {
        let texts = vec![(text, self.first, 0)];
        let mut more = Continuation::new(self.b, self.model, pages, texts, Sample::greedy(), self.tokens)?;
        let refusal = more.refusal().map(ToString::to_string);
        let (tokens, time) = timed(self.tokens, |_| Ok(more.next_tokens()?[0]?))?;
        Ok((tokens, time, refusal))
    }
}

/// The tokens drawn by the steps, and the median time of a step.
fn timed(
    steps: usize,
    mut step: impl FnMut(i64) -> models::Result<u32>,
) -> models::Result<(Vec<u32>, Duration)> {
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
fn copy_time<B: CopyOps + rocm_ops::Backend>(b: &B, bytes: u64) -> rocm_ops::Result<Duration> {
    const ROUNDS: u32 = 10;
    let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX).clamp(1, 1 << 28);
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
