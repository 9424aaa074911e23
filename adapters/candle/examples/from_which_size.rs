//! From which sizes on a GPU computes faster than the CPU, copies included: `from_which_size MODEL.gguf`, with the feature `rocm`.
//! Times products with the model's first matrix of a feed-forward block, and two ops without weights, for more and more rows.
use candle_core::quantized::{QMatMul, gguf_file};
use candle_core::{Device, Module, Result, Tensor};
use rocm_ops::gguf::Gguf;
use rocm_ops::ops::Attention;
use rocm_ops::{Cpu, Rocm};
use rocm_ops_candle::{Computes, Extras, Ops, tensor};
use std::time::Instant;

const MATRIX: &str = "blk.0.ffn_up.weight";

/// Milliseconds of the fastest of several calls.
fn time(mut call: impl FnMut() -> Result<Tensor>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        let begin = Instant::now();
        call()?;
        best = best.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

fn ours<B: Computes>(path: &str, backend: B) -> Result<(QMatMul, Ops<B>)> {
    let gguf = Gguf::open(path).map_err(candle_core::Error::wrap)?;
    let product = QMatMul::from_qtensor(tensor(&gguf, MATRIX, &backend)?)?;
    Ok((product, Ops::new(backend)))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: from_which_size MODEL.gguf")?;
    let mut file = std::fs::File::open(&path)?;
    let content = gguf_file::Content::read(&mut file)?;
    let candle = QMatMul::from_qtensor(content.tensor(&mut file, MATRIX, &Device::Cpu)?)?;
    let ((on_cpu, cpu), (on_gpu, gpu)) = (ours(&path, Cpu::new())?, ours(&path, Rocm::new()?)?);
    let width = *content.tensor_infos[MATRIX].shape.dims().last().ok_or("a matrix has dimensions")?;
    println!("{:<28} {:>6} {:>10} {:>10} {:>10}   ms", "op", "rows", "candle", "Cpu", "Rocm");
    for rows in [1, 4, 16, 64, 256, 1024, 4096] {
        let x = Tensor::rand(-1f32, 1.0, (rows, width), &Device::Cpu)?;
        let row = |op: &str, ms: [f64; 3]| {
            println!("{op:<28} {rows:>6} {:>10.3} {:>10.3} {:>10.3}", ms[0], ms[1], ms[2]);
        };
        row(
            "product",
            [time(|| candle.forward(&x))?, time(|| on_cpu.forward(&x))?, time(|| on_gpu.forward(&x))?],
        );
        row(
            "softmax",
            [
                time(|| candle_nn::ops::softmax_last_dim(&x))?,
                time(|| cpu.softmax(&x, -1))?,
                time(|| gpu.softmax(&x, -1))?,
            ],
        );
        let q = Tensor::rand(-1f32, 1.0, (1, 16, rows, 64), &Device::Cpu)?;
        let attention = |q: &Tensor| -> Result<Tensor> {
            let scores = (q.matmul(&q.t()?)? * 0.125)?;
            candle_nn::ops::softmax_last_dim(&scores)?.matmul(q)
        };
        row(
            "attention, 16 heads of 64",
            [
                time(|| attention(&q))?,
                time(|| cpu.attention(&q, &q, &q, Extras::default(), Attention::full()))?,
                time(|| gpu.attention(&q, &q, &q, Extras::default(), Attention::full()))?,
            ],
        );
    }
    Ok(())
}
