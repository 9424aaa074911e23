//! The cost of determinism *batch* on the CPU. Run by hand: `cargo test -p ops-tests --test models --
//! --ignored --nocapture cost`.
use rocm_ops::ops::{Attention, AttentionMethods, LinearMethods, QuantMethods};
use rocm_ops::quant::{Q4_K, Q8_0};
use rocm_ops::{Backend, Cpu, DType, Determinism, f16};
use std::time::{Duration, Instant};

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 % 1013) as f32 - 506.0) / 600.0).collect()
}

/// The shortest of several alternating runs on each backend.
fn shortest(mut run: [&mut dyn FnMut(); 2]) -> [Duration; 2] {
    let mut best = [Duration::MAX; 2];
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        for (run, best) in run.iter_mut().zip(&mut best) {
            let begin = Instant::now();
            run();
            *best = begin.elapsed().min(*best);
        }
    }
    best
}

fn report(what: &str, rows: usize, [by_default, by_row]: [Duration; 2]) {
    let change = by_row.as_secs_f64() / by_default.as_secs_f64();
    println!("{what}, {rows} rows: {by_default:.0?} by default, {by_row:.0?} with batch, x {change:.2}");
}

#[test]
#[ignore = "measures"]
fn cost() {
    let by_default = Cpu::builder().threads(1).build().unwrap();
    let by_row = Cpu::builder().threads(1).determinism(Determinism::Batch).build().unwrap();
    let [n, k] = [2048, 2048];
    let wide = by_default.tensor(&[n, k], &numbers(n * k)).unwrap();
    let half: Vec<f16> = numbers(n * k).into_iter().map(f16::from_f32).collect();
    let plain = by_default.tensor(&[n, k], &half).unwrap();
    let packed = by_default.pack_weight::<f32>(by_default.tensor(&[n, k], &half).unwrap()).unwrap();
    let q8 = by_default.quantize(&wide, DType::Block(&Q8_0)).unwrap();
    let q8_packed = by_default.quantize(&wide, DType::Block(&Q8_0)).unwrap();
    let q8_packed = by_default.pack_weight::<f32>(q8_packed).unwrap();
    let q4_k = by_default.quantize(&wide, DType::Block(&Q4_K)).unwrap();
    for rows in [1, 2, 8, 64, 256] {
        let x = by_default.tensor(&[rows, k], &numbers(rows * k)).unwrap();
        macro_rules! product {
            ($name:literal, $weight:expr) => {
                let mut one = || drop(by_default.linear(&x, $weight).unwrap());
                let mut two = || drop(by_row.linear(&x, $weight).unwrap());
                report($name, rows, shortest([&mut one, &mut two]));
            };
        }
        product!("linear f16", &plain);
        product!("linear f16 packed", &packed);
        product!("linear q8_0", &q8);
        product!("linear q8_0 packed", &q8_packed);
        product!("linear q4_k", &q4_k);
        let [heads, keys, d] = [8, 2048, 128];
        let q = by_default.tensor(&[1, heads, rows, d], &numbers(heads * rows * d)).unwrap();
        let kv = by_default.tensor(&[1, 2, keys, d], &numbers(2 * keys * d)).unwrap();
        let mut one = || drop(by_default.attention(&q, &kv, &kv, Attention::causal()).unwrap());
        let mut two = || drop(by_row.attention(&q, &kv, &kv, Attention::causal()).unwrap());
        report("attention of 2048 keys", rows, shortest([&mut one, &mut two]));
    }
}
