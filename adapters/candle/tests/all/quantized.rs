//! Weights in blocks: products, blocks in file order, memory, threads.
use crate::compare::*;
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Tensor};
use rocm_ops::gguf::{GgmlType, Gguf, Writer};
use rocm_ops::ops::*;
use rocm_ops::prelude::{Cpu, Reference};
use rocm_ops::quant::FORMATS;
use rocm_ops::{Activations, BlockInfo, Either};
use rocm_ops_candle::{Computes, tensor};
use std::borrow::Cow;

/// Rows and columns of a weight that is packed if its format can be.
const LARGE: [usize; 2] = [48, 512];
/// And of one that is too small.
const SMALL: [usize; 2] = [8, 256];

/// A file with one weight, and the blocks in it.
fn file(format: &'static BlockInfo, dims: [usize; 2]) -> (Gguf, Vec<u8>) {
    let blocks =
        Cpu::new().quantize(ours::<f32>(&of::<f32>(&dims, 3)), rocm_ops::DType::Block(format)).unwrap();
    let bytes = blocks.as_ref().bytes().to_vec();
    let ty = GgmlType(format.ggml().unwrap());
    let mut writer = Writer::new();
    writer.tensor("weight", ty, &dims).unwrap();
    let mut body = writer.write_to(Vec::new()).unwrap();
    body.write("weight", &bytes).unwrap();
    (Gguf::from_bytes(body.finish().unwrap()).unwrap(), bytes)
}

/// Formats that values can be quantized to and that are weights, with candle's name.
fn formats() -> impl Iterator<Item = (&'static BlockInfo, Option<GgmlDType>)> {
    let theirs = |name: &str| {
        Some(match name {
            "q4_0" => GgmlDType::Q4_0,
            "q4_1" => GgmlDType::Q4_1,
            "q5_0" => GgmlDType::Q5_0,
            "q5_1" => GgmlDType::Q5_1,
            "q8_0" => GgmlDType::Q8_0,
            "q2_k" => GgmlDType::Q2K,
            "q3_k" => GgmlDType::Q3K,
            "q4_k" => GgmlDType::Q4K,
            "q5_k" => GgmlDType::Q5K,
            "q6_k" => GgmlDType::Q6K,
            _ => return None,
        })
    };
    let weights =
        FORMATS.iter().filter(|format| format.encodes() && !["q8_1", "q8_k"].contains(&format.name()));
    weights.map(move |format| (*format, theirs(format.name())))
}

fn nmse(got: &[f32], want: &[f32]) -> f64 {
    let error: f64 = got.iter().zip(want).map(|(g, w)| f64::from(g - w).powi(2)).sum();
    error / want.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>()
}

#[test]
fn products_are_within_the_budget_of_the_format() {
    fn of_backend<B: Computes>(backend: &B) {
        for (format, theirs) in formats() {
            for dims in [LARGE, SMALL] {
                let (gguf, bytes) = file(format, dims);
                let ours = QMatMul::from_qtensor(tensor(&gguf, "weight", backend).unwrap()).unwrap();
                let values = tensor(&gguf, "weight", backend).unwrap().dequantize(&Device::Cpu).unwrap();
                let budget = format.error_budget().any;
                for rows in [1, 3, 40] {
                    let x = of::<f32>(&[rows, dims[1]], 1);
                    let exact = elements::<f32>(&x.matmul(&values.t().unwrap()).unwrap());
                    let got = ours.forward(&x).unwrap();
                    assert_eq!(got.dims(), [rows, dims[0]]);
                    let error = nmse(&elements(&got), &exact);
                    assert!(error <= budget, "{} of {rows} rows: {error}", format.name());
                    let Some(theirs) = theirs else { continue };
                    let storage = QStorage::from_data(Cow::Borrowed(&bytes), &Device::Cpu, theirs).unwrap();
                    let theirs = QMatMul::from_qtensor(QTensor::new(storage, &dims[..]).unwrap()).unwrap();
                    let error = nmse(&elements(&got), &elements(&theirs.forward(&x).unwrap()));
                    assert!(error <= 4.0 * budget, "{} of {rows} rows, and candle's: {error}", format.name());
                }
            }
        }
    }
    of_backend(&Cpu::new());
    of_backend(&Either::<Cpu, Reference>::Left(Cpu::new()));
}

#[test]
fn rows_of_sixteen_bits_are_multiplied_as_they_are() {
    let (gguf, _) = file(&rocm_ops::quant::Q4_K, LARGE);
    let weight = QMatMul::from_qtensor(tensor(&gguf, "weight", &Cpu::new()).unwrap()).unwrap();
    let x = of::<f32>(&[2, 3, LARGE[1]], 1);
    let want = elements::<f32>(&weight.forward(&x).unwrap());
    for dtype in [DType::F16, DType::BF16] {
        let got = weight.forward(&x.to_dtype(dtype).unwrap()).unwrap();
        assert_eq!((got.dims(), got.dtype()), (&[2, 3, LARGE[0]][..], dtype));
        assert!(nmse(&elements(&got.to_dtype(DType::F32).unwrap()), &want) < 1e-4);
    }
}

#[test]
fn exact_activations_give_exact_products() {
    let exact = Cpu::builder().activations(Activations::Exact).build().unwrap();
    for (format, _) in formats() {
        let (gguf, _) = file(format, LARGE);
        let weight = tensor(&gguf, "weight", &exact).unwrap();
        let x = of::<f32>(&[2, LARGE[1]], 1);
        let want = x.matmul(&weight.dequantize(&Device::Cpu).unwrap().t().unwrap()).unwrap();
        let got = QMatMul::from_qtensor(weight).unwrap().forward(&x).unwrap();
        assert!(nmse(&elements(&got), &elements(&want)) < 1e-10, "{}", format.name());
    }
}

#[test]
fn candle_reads_the_blocks_of_the_file() {
    for (format, theirs) in formats() {
        for dims in [LARGE, SMALL] {
            let (gguf, bytes) = file(format, dims);
            let ours = tensor(&gguf, "weight", &Cpu::new()).unwrap();
            assert_eq!(ours.storage_size_in_bytes(), bytes.len());
            assert_eq!(ours.data().unwrap().as_ref(), bytes, "{}", format.name());
            let ids = indices(&[2, 2], &[3, 0, 7, 3]);
            let rows =
                ours.dequantize(&Device::Cpu).unwrap().index_select(&ids.flatten_all().unwrap(), 0).unwrap();
            let got = ours.embedding(&ids).unwrap();
            assert_eq!(got.dims(), [2, 2, dims[1]]);
            assert_eq!(elements::<f32>(&got), elements::<f32>(&rows), "{}", format.name());
            assert!(ours.embedding(&indices(&[1], &[dims[0] as u32])).is_err());
            if let Some(theirs) = theirs {
                let storage = QStorage::from_data(Cow::Borrowed(&bytes), &Device::Cpu, theirs).unwrap();
                let theirs = QTensor::new(storage, &dims[..]).unwrap().dequantize(&Device::Cpu).unwrap();
                let got = ours.dequantize(&Device::Cpu).unwrap();
                assert_eq!(elements::<f32>(&got), elements::<f32>(&theirs), "{}", format.name());
            }
        }
    }
}

/// candle rearranges these for its own kernels, which would then compute the products.
#[test]
fn no_type_is_one_that_candle_rearranges() {
    let rearranged = [GgmlDType::Q4_0, GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::Q5K, GgmlDType::Q6K];
    let floats = [GgmlDType::F32, GgmlDType::F16, GgmlDType::BF16];
    for (format, theirs) in formats() {
        let (gguf, _) = file(format, LARGE);
        let reported = tensor(&gguf, "weight", &Cpu::new()).unwrap().dtype();
        assert!(!rearranged.contains(&reported) && !floats.contains(&reported), "{}", format.name());
        assert_eq!(reported.block_size(), format.values());
        if theirs.is_some_and(|theirs| !rearranged.contains(&theirs)) {
            assert_eq!(Some(reported), theirs);
        }
    }
}

/// One copy of a weight: in the file's memory, or packed.
#[test]
fn weights_that_are_not_packed_are_in_the_memory_of_the_file() {
    let at = |gguf: &Gguf| gguf.tensor("weight").unwrap().bytes().unwrap().as_ptr();
    let (gguf, _) = file(&rocm_ops::quant::Q4_0, SMALL);
    assert_eq!(tensor(&gguf, "weight", &Cpu::new()).unwrap().data().unwrap().as_ptr(), at(&gguf));
    let (gguf, _) = file(&rocm_ops::quant::Q4_0, LARGE);
    let packed = tensor(&gguf, "weight", &Cpu::new()).unwrap();
    let data = packed.data().unwrap().as_ptr();
    assert_ne!(data, at(&gguf));
    assert_eq!(data, packed.data().unwrap().as_ptr(), "made once");
    assert_eq!(data.addr() % 64, 0);
}

/// One of these two is not where candle's code may read blocks.
#[test]
fn blocks_at_any_position_of_a_file_are_aligned() {
    let mut writer = Writer::new();
    writer.set("general.alignment", 2u32).unwrap();
    let bytes: Vec<u8> = (0..34).collect();
    for name in ["first", "second"] {
        writer.tensor(name, GgmlType::Q8_0, &[1, 32]).unwrap();
    }
    let mut body = writer.write_to(Vec::new()).unwrap();
    for name in ["first", "second"] {
        body.write(name, &bytes).unwrap();
    }
    let gguf = Gguf::from_bytes(body.finish().unwrap()).unwrap();
    for name in ["first", "second"] {
        let weight = tensor(&gguf, name, &Cpu::new()).unwrap();
        let data = weight.data().unwrap();
        assert_eq!((data.as_ptr().addr() % 4, data.as_ref()), (0, &bytes[..]), "{name}");
    }
}

#[test]
fn other_tensors_are_candles_own_or_refused() {
    let mut writer = Writer::new();
    writer.tensor("norm", GgmlType::F32, &[4]).unwrap();
    writer.tensor("half", GgmlType::F16, &[2, 2]).unwrap();
    let mut body = writer.write_to(Vec::new()).unwrap();
    body.write("norm", &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    body.write("half", &[1.0f32, 2.0, 3.0, 4.0].map(rocm_ops::f16::from_f32)).unwrap();
    let gguf = Gguf::from_bytes(body.finish().unwrap()).unwrap();
    let all = rocm_ops_candle::tensors(&gguf, &Cpu::new()).unwrap();
    assert_eq!((all["norm"].dtype(), all["half"].dtype()), (GgmlDType::F32, GgmlDType::F16));
    let norm = all["norm"].dequantize(&Device::Cpu).unwrap();
    assert_eq!(elements::<f32>(&norm), [1.0, 2.0, 3.0, 4.0]);
    assert!(tensor(&gguf, "none", &Cpu::new()).unwrap_err().to_string().contains("none"));

    let mut writer = Writer::new();
    writer.tensor("ids", GgmlType::I32, &[2]).unwrap();
    let mut body = writer.write_to(Vec::new()).unwrap();
    body.write("ids", &[1i32, 2]).unwrap();
    let gguf = Gguf::from_bytes(body.finish().unwrap()).unwrap();
    let error = tensor(&gguf, "ids", &Cpu::new()).unwrap_err().to_string();
    assert!(error.starts_with("tensors: ids is of i32, expected a float type or a block format"), "{error}");
}

/// Three extents, as of experts, have no product in candle; the blocks are there.
#[test]
fn weights_of_three_extents_are_not_multiplied() {
    let mut writer = Writer::new();
    writer.tensor("weight", GgmlType::Q8_0, &[2, 4, 32]).unwrap();
    let mut body = writer.write_to(Vec::new()).unwrap();
    body.write("weight", &[0u8; 8 * 34]).unwrap();
    let gguf = Gguf::from_bytes(body.finish().unwrap()).unwrap();
    let weight = tensor(&gguf, "weight", &Cpu::new()).unwrap();
    assert_eq!((weight.shape().dims(), weight.data().unwrap().len()), (&[2, 4, 32][..], 8 * 34));
    let x = of::<f32>(&[1, 32], 1);
    assert!(QMatMul::from_qtensor(weight).unwrap().forward(&x).is_err());
}

#[test]
fn threads_share_a_weight() {
    let (gguf, bytes) = file(&rocm_ops::quant::Q4_K, LARGE);
    let shared = std::sync::Arc::new(tensor(&gguf, "weight", &Cpu::new()).unwrap());
    let weight = QMatMul::from_arc(shared.clone()).unwrap();
    let x: Vec<Tensor> = (0..4).map(|i| of::<f32>(&[1 + i, LARGE[1]], i)).collect();
    let want: Vec<Vec<f32>> = x.iter().map(|x| elements(&weight.forward(x).unwrap())).collect();
    std::thread::scope(|scope| {
        for (x, want) in x.iter().zip(&want) {
            let (weight, shared, bytes) = (&weight, &shared, &bytes);
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(&elements::<f32>(&weight.forward(x).unwrap()), want);
                    assert_eq!(shared.data().unwrap().as_ref(), &bytes[..]);
                }
            });
        }
    });
}
