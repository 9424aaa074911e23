//! Times candle's CPU backend: reads case names, one per line, and answers with microseconds, or `none` if
//! candle has no such operation.
use candle_core::quantized::{GgmlDType, QMatMul, QTensor, gguf_file};
use candle_core::{DType, Device, IndexOp, Module, Result, Tensor};
use candle_nn::attention::AttnMask;
use candle_nn::attention::cpu_flash::flash_attn;
use candle_nn::{ops, rotary_emb};
use candle_transformers::models::quantized_llama::ModelWeights;
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

mod embed;
#[allow(dead_code)]
mod tasks;

type Run = Box<dyn FnMut() -> Result<()>>;

/// Time for one case in one round.
const ROUND: Duration = Duration::from_millis(300);

fn main() {
    let mut cases: HashMap<String, Option<Run>> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let (name, model) = line.split_once('\t').unwrap_or((&line, ""));
        let answer = if name.starts_with("generate") {
            generate(model, false).map(|us| format!("{us}"))
        } else if name == "embed" {
            embed::embed(model).map(|us| format!("{us}"))
        } else {
            // One case at a time, so that the memory of the previous one is free again.
            if !cases.contains_key(name) {
                cases.clear();
            }
            match cases.entry(name.to_owned()).or_insert_with(|| case(name).unwrap_or(None)) {
                Some(run) => time(run).map(|us| format!("{us}")),
                None => Ok("none".into()),
            }
        };
        println!("{}", answer.unwrap_or_else(|e| format!("none {}", e.to_string().lines().next().unwrap_or(""))));
        std::io::stdout().flush().expect("a reader");
    }
}

/// The fastest calls of a round, in microseconds.
fn time(run: &mut Run) -> Result<f64> {
    let (begin, mut times) = (Instant::now(), Vec::new());
    run()?;
    let first = Instant::now();
    run()?;
    let batch = (20e-6 / first.elapsed().as_secs_f64()).ceil().max(1.0) as u32;
    while times.len() < 5 || begin.elapsed() < ROUND {
        let start = Instant::now();
        for _ in 0..batch {
            run()?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(batch));
        if begin.elapsed() > 10 * ROUND {
            break;
        }
    }
    // The fastest: on a busy machine, everything above it is due to other programs.
    Ok(times.into_iter().fold(f64::INFINITY, f64::min))
}

/// Greedy tokens of a model: microseconds per token.
fn generate(model: &str, _q8: bool) -> Result<f64> {
    let device = Device::Cpu;
    let mut file = std::fs::File::open(model)?;
    let content = gguf_file::Content::read(&mut file)?;
    let mut model = ModelWeights::from_gguf(content, &mut file, &device)?;
    let mut times = Vec::new();
    for _ in 0..3 {
        let mut token = 1u32;
        let begin = Instant::now();
        for position in 0..200 {
            let x = Tensor::new(&[token], &device)?.unsqueeze(0)?;
            let logits = model.forward(&x, position)?.squeeze(0)?;
            token = logits.argmax(0)?.to_scalar()?;
        }
        times.push(begin.elapsed().as_secs_f64() * 1e6 / 200.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[1])
}

fn case(name: &str) -> Result<Option<Run>> {
    let mut words = name.split(' ');
    let (op, dims, dtype) =
        (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
    let dims: Vec<usize> = dims.split('x').filter_map(|d| d.parse().ok()).collect();
    let device = Device::Cpu;
    let random = |dims: &[usize], dtype: DType| Tensor::randn(0f32, 1.0, dims, &device)?.to_dtype(dtype);
    let float = match dtype {
        "bf16" => DType::BF16,
        "f16" => DType::F16,
        _ => DType::F32,
    };
    macro_rules! run {
        ($body:expr) => {
            Some(Box::new(move || {
                std::hint::black_box($body);
                Ok(())
            }) as Run)
        };
    }
    Ok(match op {
        "rms_norm" | "layer_norm" => {
            let (x, w, b) = (random(&dims, float)?, random(&dims[1..], float)?, random(&dims[1..], float)?);
            if op == "rms_norm" { run!(ops::rms_norm(&x, &w, 1e-5)?) } else { run!(ops::layer_norm(&x, &w, &b, 1e-5)?) }
        }
        "softmax" => {
            let x = random(&dims, float)?;
            run!(ops::softmax_last_dim(&x)?)
        }
        "rope_neox" | "rope_interleaved" | "rope_thd" => {
            let (t, d) = if op == "rope_thd" { (dims[1], dims[3]) } else { (dims[2], dims[3]) };
            let (x, cos, sin) = (random(&dims, float)?, random(&[t, d / 2], float)?, random(&[t, d / 2], float)?);
            match op {
                "rope_neox" => run!(rotary_emb::rope(&x, &cos, &sin)?),
                "rope_thd" => run!(rotary_emb::rope_thd(&x, &cos, &sin)?),
                _ => run!(rotary_emb::rope_i(&x, &cos, &sin)?),
            }
        }
        "silu" | "gelu" | "gelu_erf" | "sigmoid" | "affine" => {
            let x = random(&dims, float)?;
            match op {
                "silu" => run!(x.silu()?),
                "gelu" => run!(x.gelu()?),
                "gelu_erf" => run!(x.gelu_erf()?),
                "sigmoid" => run!(ops::sigmoid(&x)?),
                _ => run!(x.affine(2.0, 1.0)?),
            }
        }
        "add" | "swiglu" => {
            let (a, b) = (random(&dims, float)?, random(&dims, float)?);
            if op == "add" { run!((&a + &b)?) } else { run!((a.silu()? * &b)?) }
        }
        "where" => {
            let (a, b) = (random(&dims, float)?, random(&dims, float)?);
            let c = a.ge(0.0)?;
            run!(c.where_cond(&a, &b)?)
        }
        "eq" | "lt" => {
            let (a, b) = (random(&dims, float)?, random(&dims, float)?);
            if op == "eq" { run!(a.eq(&b)?) } else { run!(a.lt(&b)?) }
        }
        "powf" | "clamp" => {
            let x = random(&dims, float)?.abs()?;
            if op == "powf" { run!(x.powf(1.7)?) } else { run!(x.clamp(-0.5, 0.5)?) }
        }
        "transpose" => {
            let x = random(&dims, float)?;
            run!(x.t()?.contiguous()?)
        }
        "sum" | "max" | "argmax" | "argsort" | "sum_first" | "max_first" | "argmax_first" => {
            let (x, axis) = (random(&dims, float)?, usize::from(!op.ends_with("_first")));
            match op.trim_end_matches("_first") {
                "sum" => run!(x.sum(axis)?),
                "max" => run!(x.max(axis)?),
                "argmax" => run!(x.argmax(axis)?),
                _ => run!(x.arg_sort_last_dim(true)?),
            }
        }
        "gather" | "scatter_add" | "index_add" => {
            let x = random(&dims, float)?;
            let ids = |dims: &[usize]| Tensor::rand(0f32, dims[0] as f32 - 1.0, dims, &device)?.to_dtype(DType::U32);
            let (all, ids) = (ids(&dims)?, ids(&dims[..1])?);
            match op {
                "gather" => run!(x.gather(&all, 0)?),
                "scatter_add" => run!(x.zeros_like()?.scatter_add(&all, &x, 0)?),
                _ => run!(x.zeros_like()?.index_add(&ids, &x, 0)?),
            }
        }
        "cast" if dtype == "u8>f16" => {
            let x = (random(&dims, DType::F32)? * 30.0)?.abs()?.to_dtype(DType::U8)?;
            run!(x.to_dtype(DType::F16)?)
        }
        "cast" => {
            let (from, to) = dtype.split_once('>').unwrap_or(("f32", "f32"));
            let of = |name: &str| if name == "f16" { DType::F16 } else if name == "bf16" { DType::BF16 } else { DType::F32 };
            let (x, to) = (random(&dims, of(from))?, of(to));
            run!(x.to_dtype(to)?)
        }
        "matmul" => {
            let (a, b) = (random(&[dims[0], dims[1]], float)?, random(&[dims[1], dims[2]], float)?);
            run!(a.matmul(&b)?)
        }
        "linear" | "linear_packed" if dtype.starts_with('q') => {
            let format = match dtype {
                "q8_0" => GgmlDType::Q8_0,
                "q4_0" => GgmlDType::Q4_0,
                "q4_k" => GgmlDType::Q4K,
                "q5_k" => GgmlDType::Q5K,
                "q6_k" => GgmlDType::Q6K,
                _ => return Ok(None),
            };
            let x = random(&[dims[0], dims[1]], DType::F32)?;
            let w = QMatMul::from_qtensor(QTensor::quantize(&random(&[dims[2], dims[1]], DType::F32)?, format)?)?;
            run!(w.forward(&x)?)
        }
        "linear" | "linear_packed" => {
            let (x, w) = (random(&[dims[0], dims[1]], float)?, random(&[dims[2], dims[1]], float)?);
            let w = w.t()?;
            run!(x.matmul(&w)?)
        }
        "attention" => {
            let [h, hk, t, s, d] = dims[..] else { return Ok(None) };
            let x = |h: usize, t: usize| random(&[1, t, h, d], float);
            let (q, k, v) = (x(h, t)?, x(hk, s)?, x(hk, s)?);
            let scale = 1.0 / (d as f32).sqrt();
            let mask = move || AttnMask::causal_with_offset(s - t);
            match float {
                DType::F16 => run!(flash_attn::<half::f16>(&q, &k, &v, scale, mask(), None, None)?),
                DType::BF16 => run!(flash_attn::<half::bf16>(&q, &k, &v, scale, mask(), None, None)?),
                _ => run!(flash_attn::<f32>(&q, &k, &v, scale, mask(), None, None)?.i(0)?),
            }
        }
        _ => None,
    })
}
