//! One function gives the same results on every backend and in every type.
use crate::device::Device;
use crate::model::{data, nmse, run, tensor, values};
use rocm_ops::backend::{Execute, NamedTensors, Op, Operands};
use rocm_ops::model::Weight;
use rocm_ops::ops::*;
use rocm_ops::quant::{BlockQ4_0, BlockQ8_0, Encode};
use rocm_ops::{
    AnyOf, Backend, Checked, Cpu, DType, Either, Error, Fallback, Float, Host, Layout, Reference, Result,
    Scalar, TensorOf, TensorRef, bf16, f16,
};

#[test]
fn one_function_on_every_backend_in_every_type() {
    let passes = [5, 1];
    let oracle = run::<f64, _>(&Reference::new(), &passes).unwrap();
    for (name, got, limit) in [
        ("reference f32", run::<f32, _>(&Reference::new(), &passes), 1e-11),
        ("cpu f64", run::<f64, _>(&Cpu::new(), &passes), 1e-24),
        ("cpu f32", run::<f32, _>(&Cpu::new(), &passes), 1e-11),
        ("cpu f16", run::<f16, _>(&Cpu::new(), &passes), 1e-5),
        ("cpu bf16", run::<bf16, _>(&Cpu::new(), &passes), 1e-3),
        ("device bf16", run::<bf16, _>(&Device::new(), &passes), 1e-3),
    ] {
        let error = nmse(&got.unwrap(), &oracle);
        assert!(error < limit, "{name}: {error:e}");
    }
}

#[test]
fn prefill_then_decode_equals_one_pass() {
    let whole = run::<f64, _>(&Cpu::new(), &[6]).unwrap();
    for passes in [&[5, 1][..], &[1; 6], &[2, 1, 3]] {
        assert!(nmse(&run::<f64, _>(&Cpu::new(), passes).unwrap(), &whole) < 1e-24, "{passes:?}");
    }
    let whole = run::<f32, _>(&Cpu::new(), &[6]).unwrap();
    assert!(nmse(&run::<f32, _>(&Cpu::new(), &[5, 1]).unwrap(), &whole) < 1e-11);
}

#[test]
fn attention_reads_a_narrowed_cache_in_place() {
    let b = Cpu::new();
    let (k, v): (TensorOf<Cpu, f64>, TensorOf<Cpu, f64>) =
        (tensor(&b, &[1, 2, 6, 8], 1), tensor(&b, &[1, 2, 6, 8], 2));
    let q: TensorOf<Cpu, f64> = tensor(&b, &[1, 4, 6, 8], 3);
    let full = b.attention(q.as_ref(), k.as_ref(), v.as_ref(), Attention::<f64>::causal()).unwrap();
    let last = q.as_ref().narrow(2, 5, 1).unwrap();
    let last = b.attention(last, k.as_ref(), v.as_ref(), Attention::<f64>::causal()).unwrap();
    let want = values(&b, full.as_ref().narrow(2, 5, 1).unwrap());
    assert!(nmse(&values(&b, last.as_ref()), &want) < 1e-24);
}

#[test]
fn shape_errors_are_the_same_everywhere() {
    fn message<B: NormOps<f32>>(b: &B) -> String {
        let (x, w): (TensorOf<B, f32>, TensorOf<B, f32>) = (tensor(b, &[2, 8], 1), tensor(b, &[7], 2));
        b.rms_norm(x.as_ref(), w.as_ref(), RmsNorm::eps(1e-5)).unwrap_err().to_string()
    }
    let want = "rms_norm: weight has shape [7], expected [8]";
    assert_eq!(message(&Cpu::new()), want);
    assert_eq!(message(&Reference::new()), want);
    assert_eq!(message(&Device::limited()), want);
    assert_eq!(message(&Fallback::new(Device::limited(), Cpu::new())), want);
    assert_eq!(message(&Checked::new(Cpu::new(), Reference::new())), want);
    assert_eq!(message(&Either::<Device, Cpu>::Left(Device::new())), want);
}

#[test]
fn views_outside_their_memory_and_outputs_over_themselves_are_errors() {
    let b = Cpu::new();
    let (x, w) = (data::<f32>(8, 1), data::<f32>(4, 2));
    let outside = TensorRef::<Host, f32>::new(&x, Layout::contiguous(&[1000, 4]).unwrap()).unwrap_err();
    assert!(matches!(outside, Error::OutOfBounds { len: 8, .. }), "{outside}");
    let view = Host::view(&x, &[2, 4]).unwrap();
    assert!(view.with_layout(Layout::strided(&[3, 4], &[4, 1], 0).unwrap()).is_err());
    assert!(Layout::strided(&[2], &[-1], 0).is_err(), "before the memory");

    let mut y: TensorOf<Cpu, f32> = b.zeros(&[2, 4]).unwrap();
    let same = y.as_mut().with_layout(Layout::strided(&[2, 4], &[0, 1], 0).unwrap()).unwrap();
    let (x, w) = (Host::view(&x, &[2, 4]).unwrap(), Host::view(&w, &[4]).unwrap());
    let overlap = b.rms_norm_into(x, w, same, RmsNorm::eps(1e-5)).unwrap_err();
    assert!(matches!(&overlap, Error::Overlap { op: "rms_norm", operand: "y", .. }), "{overlap}");
    assert_eq!(&y.buffer()[..], [0.0; 8], "on an error nothing was written");
}

#[test]
fn halves_of_a_tensor_are_written_independently() {
    let b = Cpu::new();
    let split = |dims: &[usize], axis: isize, mid: usize, turned: bool| -> Result<Vec<f64>> {
        let mut y: TensorOf<Cpu, f32> = b.zeros(dims)?;
        let mut view = y.as_mut();
        if turned {
            let (rows, n) = (dims[0], dims[1] as isize);
            view = view.with_layout(Layout::strided(dims, &[-n, 1], (rows - 1) * n as usize)?)?;
        }
        let (mut left, mut right) = view.split_at(axis, mid)?;
        b.fill(left.reborrow(), 1.0)?;
        b.fill(right.reborrow(), 2.0)?;
        b.affine_inplace(left, 3.0, 0.0)?;
        Ok(values(&b, y.as_ref()))
    };
    assert_eq!(split(&[3, 2], 0, 1, false).unwrap(), [3.0, 3.0, 2.0, 2.0, 2.0, 2.0]);
    assert_eq!(split(&[3, 2], 0, 1, true).unwrap(), [2.0, 2.0, 2.0, 2.0, 3.0, 3.0]);
    assert_eq!(split(&[1, 4], 1, 3, false).unwrap(), [3.0, 3.0, 3.0, 2.0]);
    assert_eq!(split(&[2, 2], 0, 0, false).unwrap(), [2.0; 4]);
    assert_eq!(split(&[2, 2], 0, 2, false).unwrap(), [3.0; 4]);
    // Halves that interleave in memory cannot be borrowed at the same time; a split beyond the axis is an error.
    assert!(matches!(split(&[2, 4], 1, 2, false), Err(Error::View { view: "split_at", .. })));
    assert!(split(&[2, 4], 0, 3, false).is_err());
}

#[test]
fn optional_operands_are_absent_not_zero() {
    fn go<B: MatMulOps<f32>>(b: &B) -> Vec<f64> {
        let (x, w): (TensorOf<B, f32>, TensorOf<B, f32>) = (tensor(b, &[2, 4], 1), tensor(b, &[3, 4], 2));
        let bias = b.tensor(&[3], &[10f32, 20., 30.]).unwrap();
        let plain = values(b, b.linear(x.as_ref(), w.as_ref()).unwrap().as_ref());
        let biased = values(b, b.linear_bias(x.as_ref(), w.as_ref(), Some(bias.any())).unwrap().as_ref());
        assert!((biased[4] - plain[4] - 20.0).abs() < 1e-5);

        let mut y = b.zeros::<f32>(&[2, 3]).unwrap();
        let args = args::linear::Args { x: x.as_ref(), weight: w.as_ref().any(), bias: None, y: y.as_mut() };
        let on: &dyn Operands = &args;
        assert_eq!(on.iter().map(|o| o.name).collect::<Vec<_>>(), ["x", "weight", "y"]);
        assert_eq!((on.count(), on.get("bias").is_none(), on.get("y").unwrap().dtype), (4, true, DType::F32));
        biased
    }
    let want = go(&Reference::new());
    assert_eq!(want, go(&Device::new()));
    assert_eq!(
        want,
        go(&Fallback::new(Device::declining(|_, _| Some(rocm_ops::Reason::Missing)), Reference::new()))
    );
    assert_eq!(want, go(&Checked::new(Device::new(), Reference::new())));
    assert_eq!(want, go(&Either::<Device, Cpu>::Left(Device::new())));
    assert!(nmse(&go(&Cpu::new()), &want) < 1e-12);
}

/// Checks that a backend runs what it claims to support, and leaves the outputs alone if it declines.
fn check_support_contract<O: Op, B: Execute<O>>(b: &B, op: &O, mut tensors: NamedTensors<B::Space>) {
    let said = b.support(op, &tensors.args(op).unwrap());
    match (said, b.run(op, tensors.args(op).unwrap())) {
        (Ok(()), Ok(())) | (Err(_), Err(Error::Unsupported { .. })) => {}
        (said, did) => panic!("{} said {said:?} of {op:?} and did {did:?}", b.name()),
    }
}

#[test]
fn backends_run_what_they_support() {
    fn all<B: AttentionOps<f32> + NormOps<f32> + LinearOps<f32>>(b: &B) {
        for d in [32, 64, 96] {
            let random = |dims: &[usize], seed| tensor::<B, f32>(b, dims, seed);
            let zeros = |dims: &[usize]| b.zeros::<f32>(dims).unwrap();
            let cached = |seed| random(&[1, 2, 3, d], seed);
            let tensors = NamedTensors::new().with("q", cached(1)).with("k", cached(2)).with("v", cached(3));
            check_support_contract(b, &Attention::<f32>::full(), tensors.with("o", zeros(&[1, 2, 3, d])));
            let tensors = || NamedTensors::new().with("x", random(&[4, d], 1));
            let norm = tensors().with("weight", random(&[d], 2)).with("y", zeros(&[4, d]));
            check_support_contract(b, &RmsNorm::<f32>::eps(1e-5), norm);
            let weight =
                b.tensor(&[2, d / 32], &vec![BlockQ8_0::quantize(&data(32, 5)); 2 * d / 32]).unwrap();
            check_support_contract(
                b,
                &Linear::<f32>::OP,
                tensors().with("weight", weight).with("y", zeros(&[4, 2])),
            );
        }
    }
    all(&Cpu::new());
    all(&Reference::new());
    all(&Device::limited());
    all(&Fallback::new(Device::limited(), Cpu::new()));
    all(&Fallback::new(Device::limited(), Cpu::new()).strict(true));
    all(&Checked::new(Device::limited(), Reference::new()));
    all(&Either::<Device, Cpu>::Left(Device::limited()));
}

#[test]
fn quantized_weights_are_ordinary_tensors() {
    let both = Fallback::new(Device::limited(), Cpu::new());
    let (n, k) = (3, 64);
    let (x, w) = (tensor::<_, bf16>(&both, &[2, k], 6), data::<f32>(n * k, 5));
    let exact = {
        let (b, x) = (Reference::new(), data::<bf16>(2 * k, 6));
        let x = b.cast(Host::view(&x, &[2, k]).unwrap()).unwrap();
        values::<_, f32>(&b, b.linear(x.as_ref(), Host::view(&w, &[n, k]).unwrap()).unwrap().as_ref())
    };
    fn blocks<Q: Encode>(w: &[f32]) -> Vec<Q> {
        w.chunks(Q::LEN).map(Q::quantize).collect()
    }
    let q8 = Weight::from(both.tensor(&[n, k / 32], &blocks::<BlockQ8_0>(&w)).unwrap());
    let q4 = Weight::from(both.tensor(&[n, k / 32], &blocks::<BlockQ4_0>(&w)).unwrap());
    for (weight, limit) in [(q8, 1e-3), (q4, 5e-2)] {
        assert_eq!(weight.value_dims(), [n, k]);
        let y = both.linear(x.as_ref(), &weight).unwrap();
        let error = nmse(&values(&both, y.as_ref()), &exact);
        assert!(error < limit, "{}: {error:e}", weight.dtype());
    }
    assert_eq!(both.events().len(), 1, "one op fell back, for one reason: {:?}", both.events());
    // A view of blocks works like any other view.
    let rows = both.tensor(&[n, 2], &blocks::<BlockQ8_0>(&w)).unwrap();
    let row = rows.as_ref().narrow(0, 2, 1).unwrap();
    assert_eq!(both.copy_of(row).unwrap().as_ref().to_vec(&both).unwrap(), blocks::<BlockQ8_0>(&w)[4..]);
}

#[test]
fn layouts_are_small_and_copied() {
    fn copied<T: Copy + Send + Sync>() {}
    copied::<Layout>();
    assert!(size_of::<Layout>() <= 112, "{}", size_of::<Layout>());
}

#[test]
fn a_call_is_the_same_by_method_and_by_arguments() {
    fn both_ways<B: NormOps<f32>>(b: &B) -> Result<()> {
        let (x, weight): (TensorOf<B, f32>, TensorOf<B, f32>) = (tensor(b, &[2, 8], 1), tensor(b, &[8], 2));
        let op = RmsNorm::eps(1e-5);
        let by_method = b.rms_norm(x.as_ref(), weight.as_ref(), op)?;
        let tensors = NamedTensors::new().with("x", x).with("weight", weight);
        let mut tensors = tensors.with("y", b.zeros::<f32>(&[2, 8])?);
        b.run(&op, tensors.args(&op)?)?;
        assert_eq!(tensors["y"].as_ref().to_vec(b)?, by_method.as_ref().any().to_vec(b)?);
        Ok(())
    }
    both_ways(&Cpu::new()).unwrap();
    both_ways(&Device::new()).unwrap();
}

/// A table of four rows of 32 in every type, with the row values that each represents.
fn tables<B: Backend>(b: &B) -> Vec<(AnyOf<B>, Vec<f32>)> {
    fn of<B: Backend, W: Scalar>(b: &B, w: &[f32]) -> (AnyOf<B>, Vec<f32>) {
        let w: Vec<W> = w.iter().map(|v| W::from_f64((*v).into())).collect();
        (b.tensor(&[4, 32], &w).unwrap().into(), w.iter().map(|v| v.to_f64() as f32).collect())
    }
    fn in_blocks<B: Backend, Q: Encode>(b: &B, w: &[f32]) -> (AnyOf<B>, Vec<f32>) {
        let blocks: Vec<Q> = w.chunks(Q::LEN).map(Q::quantize).collect();
        let mut values = vec![0.0; w.len()];
        values.chunks_mut(Q::LEN).zip(&blocks).for_each(|(values, block)| block.dequantize(values));
        (b.tensor(&[4, 32 / Q::LEN], &blocks).unwrap().into(), values)
    }
    let w = data::<f32>(4 * 32, 9);
    vec![
        of::<B, f16>(b, &w),
        of::<B, bf16>(b, &w),
        of::<B, f32>(b, &w),
        of::<B, f64>(b, &w),
        in_blocks::<B, BlockQ8_0>(b, &w),
        in_blocks::<B, BlockQ4_0>(b, &w),
    ]
}

#[test]
fn tables_of_any_type_are_looked_up_by_any_index() {
    fn go<T: Float, B: EmbeddingOps<T>>(b: &B) {
        for (table, rows) in tables(b) {
            let picked = [2usize, 0, 3, 2];
            let want: Vec<f64> = picked
                .iter()
                .flat_map(|i| &rows[32 * i..][..32])
                .map(|v| T::from_f64((*v).into()).to_f64())
                .collect();
            let ids: [AnyOf<B>; 4] = [
                b.tensor(&[4], &picked.map(|i| i as u8)).unwrap().into(),
                b.tensor(&[4], &picked.map(|i| i as u32)).unwrap().into(),
                b.tensor(&[4], &picked.map(|i| i as i32)).unwrap().into(),
                b.tensor(&[4], &picked.map(|i| i as i64)).unwrap().into(),
            ];
            for ids in ids {
                let y = b.embedding(&table, &ids).unwrap();
                let what = format!("{} as {} by {} on {}", table.dtype(), T::DTYPE, ids.dtype(), b.name());
                assert_eq!((y.dims(), values(b, y.as_ref())), (&[4, 32][..], want.clone()), "{what}");
            }
            let none = b.tensor(&[1], &[u32::MAX]).unwrap();
            assert_eq!(values(b, b.embedding(&table, &none).unwrap().as_ref()), [0.0; 32]);
            let outside = b.tensor(&[1], &[4u32]).unwrap();
            let error = b.embedding(&table, &outside).map(drop).and_then(|()| b.synchronize()).unwrap_err();
            assert!(matches!(error, Error::Index { index: 4, bound: 4, .. }), "{error}");
        }
        let (table, _) = tables(b).swap_remove(0);
        let floats = b.tensor(&[1], &[1.0f32]).unwrap();
        let error = b.embedding(&table, &floats).unwrap_err();
        assert_eq!(error.to_string(), "embedding: ids is of f32, expected u8, u32, i32 or i64");
    }
    fn all<B: EmbeddingOps<f16> + EmbeddingOps<bf16> + EmbeddingOps<f32> + EmbeddingOps<f64>>(b: &B) {
        go::<f16, B>(b);
        go::<bf16, B>(b);
        go::<f32, B>(b);
        go::<f64, B>(b);
    }
    all(&Reference::new());
    all(&Cpu::new());
    all(&Device::new());
    all(&Fallback::new(Device::declining(|_, _| Some(rocm_ops::Reason::Missing)), Cpu::new()));
    all(&Checked::new(Cpu::new(), Reference::new()));
    all(&Either::<Device, Cpu>::Right(Cpu::new()));
}

#[test]
fn a_weight_of_a_wrong_type_is_named() {
    let b = Cpu::new();
    let x = b.tensor(&[1, 32], &[1.0f32; 32]).unwrap();
    let integers = b.tensor(&[4, 32], &[1i32; 128]).unwrap();
    let error = b.linear(x.as_ref(), &integers).unwrap_err();
    assert_eq!(error.to_string(), "linear: weight is of i32, expected f16, bf16, f32, f64 or a block format");
    let blocks = b.zeros::<BlockQ8_0>(&[4]).unwrap();
    let error = b.linear(x.as_ref(), &blocks).unwrap_err();
    assert_eq!(error.to_string(), "linear: weight has shape [4], expected [n, k / 32]");
    let error = b.rms_norm(x.as_ref(), b.zeros::<u8>(&[32]).unwrap(), RmsNorm::eps(0.0)).unwrap_err();
    assert_eq!(error.to_string(), "rms_norm: weight is of u8, expected f16, bf16, f32 or f64");
}

#[test]
fn a_bias_is_added_with_any_weight() {
    fn go<T: Float>() {
        let (cpu, reference) = (Cpu::new(), Reference::new());
        let x: TensorOf<Cpu, T> = tensor(&cpu, &[3, 64], 1);
        let bias = cpu.tensor(&[20], &data::<f32>(20, 4)).unwrap();
        let w = data::<f32>(20 * 64, 5);
        let blocks: Vec<BlockQ8_0> = w.chunks(32).map(Encode::quantize).collect();
        let weights: [AnyOf<Cpu>; 2] =
            [cpu.tensor(&[20, 64], &w).unwrap().into(), cpu.tensor(&[20, 2], &blocks).unwrap().into()];
        for weight in weights {
            let got = values(&cpu, cpu.linear_bias(x.as_ref(), &weight, Some(bias.any())).unwrap().as_ref());
            let want = values(
                &reference,
                reference.linear_bias(x.as_ref(), &weight, Some(bias.any())).unwrap().as_ref(),
            );
            assert!(nmse(&got, &want) < 1e-4, "{} beside {}", T::DTYPE, weight.dtype());
            let plain = values(&reference, reference.linear(x.as_ref(), &weight).unwrap().as_ref());
            assert!(nmse(&plain, &want) > 1e-2, "the bias counts");
        }
    }
    go::<f16>();
    go::<f32>();
    go::<f64>();
}
