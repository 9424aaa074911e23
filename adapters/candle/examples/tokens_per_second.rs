//! Times candle's quantized llama on its own weights and on ours, and the example `llama`:
//! `tokens_per_second MODEL.gguf [PROMPT TOKENS ROUNDS [cpu]]`. `peers/adapter.sh` calls it for several types. With our weights it also
//! prints which part of the time our products take; the rest is candle's. With `cpu`, seconds are those in which the threads ran, which
//! other programs hardly change; set `RAYON_NUM_THREADS=1` too, because candle's threads spin while they wait for each other.
use candle_core::quantized::gguf_file;
use candle_core::{Device, Result, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use rocm_ops::Cpu;
use rocm_ops::combine::Timed;
use rocm_ops::gguf::Gguf;
use rocm_ops_candle::{Llama, llama};
use std::time::Instant;

#[path = "llama.rs"]
mod example;

/// Computes the logits after some tokens, which follow a number of others.
type Forward = Box<dyn FnMut(&[u32], usize) -> Result<Tensor>>;

fn of_candle(mut model: ModelWeights) -> Forward {
    Box::new(move |ids, start| model.forward(&Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?, start))
}

fn before(path: &str) -> Result<ModelWeights> {
    let mut file = std::fs::File::open(path)?;
    let content = gguf_file::Content::read(&mut file)?;
    ModelWeights::from_gguf(content, &mut file, &Device::Cpu)
}

fn after(path: &str, backend: &Timed<Cpu>) -> Result<ModelWeights> {
    let gguf = Gguf::open(path).map_err(candle_core::Error::wrap)?;
    let Llama { content, gqa } = llama(&gguf, backend)?;
    ModelWeights::from_ggml(content, gqa)
}

/// Tokens per second, and the part of the time that `products` counted.
#[derive(Clone, Copy, Default)]
struct Rate(f64, f64);

/// What rates are measured with.
struct Clock {
    products: Timed<Cpu>,
    /// Counts the time in which threads ran.
    cpu: bool,
}

impl Clock {
    fn rate(&self, tokens: usize, run: impl FnOnce() -> Result<()>) -> Result<Rate> {
        self.products.clear();
        let (begin, ran) = (Instant::now(), if self.cpu { ran()? } else { 0.0 });
        run()?;
        let elapsed = begin.elapsed().as_secs_f64();
        let seconds = if self.cpu { self::ran()? - ran } else { elapsed };
        let ours: f64 = self.products.times().iter().map(|op| op.time.as_secs_f64()).sum();
        Ok(Rate(tokens as f64 / seconds, ours / elapsed))
    }
}

/// Seconds in which the threads of this process ran, as Linux counts them.
fn ran() -> Result<f64> {
    let mut all = 0.0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        all += text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9;
    }
    Ok(all)
}

/// The rates of the prompt and of the tokens after it.
fn time(forward: &mut Forward, prompt: &[u32], tokens: usize, clock: &Clock) -> Result<[Rate; 2]> {
    let prefill = clock.rate(prompt.len(), || forward(prompt, 0).map(|_| ()))?;
    let decode = clock.rate(tokens, || {
        (0..tokens).try_for_each(|i| forward(&[i as u32 % 1000], prompt.len() + i).map(|_| ()))
    })?;
    Ok([prefill, decode])
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: tokens_per_second MODEL.gguf [PROMPT TOKENS ROUNDS [cpu]]")?;
    let mut number = |default: usize| args.next().map_or(Ok(default), |n| n.parse::<usize>());
    let (prompt, tokens, rounds) = (number(128)?, number(32)?, number(3)?);
    let ids: Vec<u32> = (0..prompt as u32).map(|i| i * 7 % 1000).collect();
    let own = example::Llama::load(&Gguf::open(&path)?, Cpu::new(), prompt + tokens)?;
    let clock =
        Clock { products: Timed::new(Cpu::new()), cpu: args.next().is_some_and(|word| word == "cpu") };
    let mut ways: [(&str, Forward); 3] = [
        ("candle", of_candle(before(&path)?)),
        ("candle on our weights", of_candle(after(&path, &clock.products)?)),
        ("example llama", Box::new(move |ids, start| own.forward(ids, start))),
    ];
    // The best of interleaved rounds: what other programs cost only makes a round slower.
    let mut best = [[Rate::default(); 2]; 3];
    for _ in 0..rounds {
        for ((_, forward), best) in ways.iter_mut().zip(&mut best) {
            let rates = time(forward, &ids, tokens, &clock)?;
            for (best, rate) in best.iter_mut().zip(rates) {
                *best = if rate.0 > best.0 { rate } else { *best };
            }
        }
    }
    for ((name, _), rates) in ways.iter().zip(best) {
        let [prefill, decode] = [0, 1].map(|i| {
            let Rate(rate, ours) = rates[i];
            let part =
                if ours > 0.0 { format!(", {:.0} % in products", 100.0 * ours) } else { String::new() };
            format!("{rate:7.2} tokens/s ({:.2}x{part})", rate / best[0][i].0)
        });
        println!("{name:22} prefill {prefill}  decode {decode}");
    }
    Ok(())
}
