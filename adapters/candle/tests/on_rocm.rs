//! Ops and weights on the stand-in for ROCm, whose memory is not the host's.
#![cfg(feature = "rocm")]

use candle_core::quantized::QMatMul;
use candle_core::{DType, Device, Module, Tensor};
use rocm_ops::gguf::Gguf;
use rocm_ops::ops::{Attention, RopeForm};
use rocm_ops::{Cpu, Rocm};
use rocm_ops_candle::{Computes, Extras, Ops, tensor};
use standin_testing::with_standin;

fn values(dims: &[usize], seed: usize) -> Tensor {
    let n: usize = dims.iter().product();
    let value = |i| ((i * 7919 + seed * 104_729) as f32 * 0.618_034).fract() * 2.0 - 1.0;
    Tensor::from_vec((0..n).map(value).collect::<Vec<f32>>(), dims, &Device::Cpu).unwrap()
}

/// Results of strided operands, and of tensors that are written in place.
fn results<B: Computes>(backend: B) -> Vec<Tensor> {
    let ops = Ops::new(backend);
    let (x, weight) = (values(&[4, 3, 8], 1).transpose(0, 1).unwrap(), values(&[4, 8], 2));
    let (y, sum) =
        ops.add_rms_norm(&x, &x, &weight.narrow(0, 1, 1).unwrap().squeeze(0).unwrap(), 1e-5).unwrap();
    let q = values(&[1, 4, 3, 8], 3);
    let (cos, sin) = (values(&[3, 4], 4), values(&[3, 4], 5));
    let q = ops.rope(&q, &cos, &sin, RopeForm::Interleaved).unwrap();
    let keys = Tensor::zeros((2, 9, 8), DType::F32, &Device::Cpu).unwrap();
    let slots = Tensor::new(&[1u32, 4, 0, 3, 2], &Device::Cpu).unwrap();
    let cache = keys.narrow(1, 2, 5).unwrap().transpose(0, 1).unwrap();
    ops.cache_write(&values(&[5, 2, 8], 6), &slots, &cache).unwrap();
    let k = cache.transpose(0, 1).unwrap().unsqueeze(0).unwrap();
    let o = ops.attention(&q, &k, &k, Extras::default(), Attention::causal()).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-q8_0.gguf");
    let down = tensor(&Gguf::open(path).unwrap(), "blk.0.attn_k.weight", ops.backend()).unwrap();
    let blocks = Tensor::new(&down.data().unwrap()[..340], &Device::Cpu).unwrap();
    let product = QMatMul::from_qtensor(down).unwrap().forward(&values(&[3, 256], 7)).unwrap();
    vec![y, sum, q, keys, o, product, blocks.to_dtype(DType::F32).unwrap()]
}

#[test]
fn results_are_those_of_the_cpu() {
    with_standin("results_are_those_of_the_cpu", &[], |_| {
        let both = results(Cpu::new()).into_iter().zip(results(Rocm::new().unwrap()));
        for (i, (want, got)) in both.enumerate() {
            assert_eq!(want.dims(), got.dims());
            let [want, got] = [want, got].map(|x| x.flatten_all().unwrap().to_vec1::<f32>().unwrap());
            let error: f32 = want.iter().zip(&got).map(|(w, g)| (w - g).powi(2)).sum();
            // Products of blocks round activations on the CPU.
            let limit = if i == 5 { 5e-4 } else { 1e-9 };
            assert!(error <= limit * want.iter().map(|w| w * w).sum::<f32>(), "result {i}: {error}");
        }
    });
}

#[test]
fn a_weight_travels_once() {
    with_standin("a_weight_travels_once", &[], |standin| {
        let ops = Ops::new(Rocm::new().unwrap());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-q8_0.gguf");
        let blocks = tensor(&Gguf::open(path).unwrap(), "blk.0.attn_k.weight", ops.backend()).unwrap();
        let (blocks, floats) =
            (QMatMul::from_qtensor(blocks).unwrap(), ops.upload(&values(&[48, 256], 1)).unwrap());
        let x = values(&[3, 256], 2);
        let products: [&dyn Fn() -> Tensor; 2] =
            [&|| blocks.forward(&x).unwrap(), &|| ops.linear(&x, &floats, None).unwrap()];
        for product in products {
            product();
            let before = standin.count("hipMemcpyAsync");
            product();
            assert_eq!(standin.count("hipMemcpyAsync") - before, 2, "only x and the result travel");
        }
    });
}
