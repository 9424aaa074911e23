//! Operands whose type is a value: views, mixed types, and the errors for wrong types.
use crate::device::Device;
use crate::model::{data, nmse, values};
use rocm_ops::model::{Transformer, Weight};
use rocm_ops::ops::*;
use rocm_ops::quant::{BlockQ8_0, Encode, Q8_0};
use rocm_ops::{
    AnyRef, AnyTensor, Backend, Checked, Cpu, DType, Either, Error, Fallback, Float, Host, Layout, Reason,
    Reference, TensorOf, bf16, f16,
};

const N: usize = 32;
const FORMATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::Block(&Q8_0)];

/// A weight of `rows` rows of 32 in any format, from the same values.
fn weight<B: Backend>(b: &B, format: DType, rows: usize, seed: u64) -> Weight<B::Space> {
    let values = data::<f32>(rows * N, seed);
    let halves = values.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>();
    let brains = values.iter().map(|v| bf16::from_f32(*v)).collect::<Vec<_>>();
    let blocks = values.chunks(N).map(BlockQ8_0::quantize).collect::<Vec<_>>();
    match format {
        DType::F32 => b.tensor(&[rows, N], &values).unwrap().into(),
        DType::F16 => b.tensor(&[rows, N], &halves).unwrap().into(),
        DType::BF16 => b.tensor(&[rows, N], &brains).unwrap().into(),
        _ => b.tensor(&[rows, 1], &blocks).unwrap().into(),
    }
}

/// One function that is generic over type and backend; its bound names no weight type.
fn run<T: Float, B: Transformer<T>>(b: &B, format: DType) -> Vec<f64> {
    let table = weight(b, format, 5, 1);
    let norm = b.tensor(&[N], &data::<f32>(N, 2)).unwrap();
    let (up, bias) = (weight(b, format, N, 3), b.tensor(&[N], &data::<f16>(N, 6)).unwrap());
    let go = |ids: AnyRef<'_, B::Space>| {
        let x: TensorOf<B, T> = b.embedding(&table, ids).unwrap();
        let h = b.rms_norm(x.as_ref(), norm.as_ref(), RmsNorm::eps(1e-5)).unwrap();
        let y = b.linear_bias(h.as_ref(), &up, Some(bias.any())).unwrap();
        values(b, y.as_ref())
    };
    let (y, z) = (
        go((&b.tensor(&[4], &[0u32, 4, 2, 2]).unwrap()).into()),
        go((&b.tensor(&[4], &[0i64, 4, 2, 2]).unwrap()).into()),
    );
    assert_eq!(y, z, "the type of the indices changes nothing");
    y
}

fn on_all<T: Float>(limit: f64) {
    for format in FORMATS {
        let want = run::<f64, _>(&Reference::new(), format);
        let near = |name: &str, got: Vec<f64>| {
            let error = nmse(&got, &want);
            assert!(error < limit, "{name} {} {format}: {error:e}", T::DTYPE);
        };
        near("cpu", run::<T, _>(&Cpu::new(), format));
        near("reference", run::<T, _>(&Reference::new(), format));
        let fallback = Fallback::new(Device::declining(blocks), Cpu::new());
        near("fallback", run::<T, _>(&fallback, format));
        let names: Vec<_> = fallback.events().iter().map(|e| e.op).collect();
        let fell: &[&str] = if format.is_block() { &["qembedding", "qlinear"] } else { &[] };
        assert_eq!(names, fell, "{format}");
        near("checked", run::<T, _>(&Checked::new(Cpu::new(), Reference::new()), format));
        near("either", run::<T, _>(&Either::<Device, Cpu>::Right(Cpu::new()), format));
    }
}

/// Declines every call with a weight in blocks.
fn blocks(_: &str, on: &dyn rocm_ops::backend::Operands) -> Option<Reason> {
    let blocks = on.iter().find(|o| o.dtype.is_block())?;
    Some(Reason::DType { operand: blocks.name, dtype: blocks.dtype })
}

#[test]
fn one_function_runs_on_every_backend_with_every_weight() {
    on_all::<f32>(1e-4);
    on_all::<f16>(1e-4);
    on_all::<bf16>(1e-3);
}

#[test]
fn untyped_views_keep_type_and_alignment() {
    let b = Cpu::new();
    let x = b.tensor(&[4, 3], &data::<f32>(12, 1)).unwrap();
    let any: AnyRef<'_, Host> = (&x).into();
    assert!(any.typed::<f32>().is_some() && any.typed::<u32>().is_none() && any.typed::<f16>().is_none());
    // Bytes of a file that start at an odd address are refused when the tensor is created, not in a kernel.
    let words = [0u64; 9];
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let one = Layout::contiguous(&[1]).unwrap();
    let odd = AnyRef::<Host>::new(&bytes[1..], DType::F32, one).unwrap_err();
    assert!(matches!(odd, Error::Align { dtype: DType::F32, .. }), "{odd}");
    assert!(AnyRef::<Host>::new(&bytes[2..36], DType::Block(&Q8_0), one).is_ok());
    let short = AnyRef::<Host>::new(&bytes[..33], DType::Block(&Q8_0), one).unwrap_err();
    assert!(matches!(short, Error::OutOfBounds { .. }), "{short}");
}

#[test]
fn strided_weights_and_outputs_inside_others_go_through_every_combinator() {
    fn go<B: NormOps<f32> + CopyOps>(b: &B) {
        let x = b.tensor(&[4, 3], &data::<f32>(12, 1)).unwrap();
        let w = b.tensor(&[3, 2], &data::<f32>(6, 2)).unwrap();
        let column = w.as_ref().transpose(0, 1).unwrap().narrow(0, 1, 1).unwrap();
        let column = column.reshape(&[3]).unwrap();
        let copy = b.copy_of(column).unwrap();
        let op = RmsNorm::eps(0.0);
        let want = values(b, b.rms_norm(x.as_ref(), copy.as_ref(), op).unwrap().as_ref());
        assert_eq!(values(b, b.rms_norm(x.as_ref(), column, op).unwrap().as_ref()), want);
        let mut big = b.tensor(&[4, 5], &[9f32; 20]).unwrap();
        b.rms_norm_into(x.as_ref(), copy.as_ref(), big.as_mut().narrow(1, 1, 3).unwrap(), op).unwrap();
        assert_eq!(values(b, big.as_ref().narrow(1, 1, 3).unwrap()), want);
        for outside in [0, 4] {
            assert_eq!(values(b, big.as_ref().narrow(1, outside, 1).unwrap()), [9.0; 4]);
        }
    }
    go(&Cpu::new());
    go(&Device::new());
    go(&Fallback::new(Device::declining(|_, _| Some(Reason::Missing)), Cpu::new()));
    go(&Checked::new(Cpu::new(), Reference::new()));
    go(&Either::<Device, Cpu>::Left(Device::new()));
}

#[test]
fn masks_are_of_any_type_that_the_rule_allows() {
    fn go<B: AttentionOps<f32>>(b: &B) {
        let [q, k, v] = [1, 2, 3].map(|seed| b.tensor(&[1, 2, 3, 4], &data::<f32>(24, seed)).unwrap());
        let run = |mask: Option<AnyRef<'_, B::Space>>, op: Attention<f32>| {
            let mut o = b.zeros::<f32>(&[1, 2, 3, 4]).unwrap();
            let (q, k, v) = (q.as_ref(), k.as_ref(), v.as_ref());
            let mask = mask.map(|mask| mask.shorten());
            let ran = b.run(
                &op,
                args::attention::Args { q, k, v, mask, alibi: None, sinks: None, o: o.as_mut(), lse: None },
            );
            ran.map(|()| values(b, o.as_ref()))
        };
        let causal = run(None, Attention::causal()).unwrap();
        let flags: Vec<u8> = (0..18).map(|p| u8::from(p % 3 <= p / 3 % 3)).collect();
        let adds: Vec<f16> =
            flags.iter().map(|f| if *f == 0 { f16::NEG_INFINITY } else { f16::ZERO }).collect();
        let flags = b.tensor(&[1, 2, 3, 3], &flags).unwrap();
        let adds = b.tensor(&[1, 2, 3, 3], &adds).unwrap();
        for mask in [flags.as_ref().any(), adds.as_ref().any()] {
            let masked = run(Some(mask), Attention::full()).unwrap();
            assert!(nmse(&masked, &causal) < 1e-12);
        }
        let ids = b.tensor(&[1, 2, 3, 3], &[0i64; 18]).unwrap();
        let error = run(Some(ids.as_ref().any()), Attention::full()).unwrap_err().to_string();
        assert_eq!(error, "attention: mask is of i64, expected f16, bf16, f32, f64 or u8");
    }
    go(&Cpu::new());
    go(&Reference::new());
    go(&Fallback::new(Device::declining(|_, _| Some(Reason::Missing)), Cpu::new()));
    go(&Checked::new(Device::new(), Reference::new()));
    go(&Either::<Device, Cpu>::Left(Device::new()));
}

#[test]
fn wrong_types_are_named() {
    fn go<B: NormOps<f32>>(b: &B) {
        let x = b.tensor(&[2, N], &data::<f32>(2 * N, 1)).unwrap();
        let ids = b.tensor(&[N], &[0u32; N]).unwrap();
        let error = b.rms_norm(x.as_ref(), ids.as_ref(), RmsNorm::eps(0.0)).unwrap_err().to_string();
        assert_eq!(error, "rms_norm: weight is of u32, expected f16, bf16, f32 or f64");
        let blocks = weight(b, DType::Block(&Q8_0), 1, 1);
        let error = b.rms_norm(x.as_ref(), &blocks, RmsNorm::eps(0.0)).unwrap_err().to_string();
        assert_eq!(error, "rms_norm: weight is of q8_0, expected f16, bf16, f32 or f64");
    }
    go(&Cpu::new());
    go(&Reference::new());
    go(&Device::new());
    go(&Fallback::new(Device::new(), Cpu::new()));

    // A weight that belongs to one side is not read as one of the other.
    let (left, right) =
        (Either::<Device, Cpu>::Left(Device::new()), Either::<Device, Cpu>::Right(Cpu::new()));
    let x = left.tensor(&[2, N], &data::<f32>(2 * N, 1)).unwrap();
    let w: AnyTensor<_> = right.tensor(&[N], &data::<f32>(N, 1)).unwrap().into();
    let error = left.rms_norm(x.as_ref(), &w, RmsNorm::eps(0.0)).unwrap_err();
    assert!(matches!(error, Error::WrongSide { .. }), "{error}");
}

#[test]
fn memory_of_a_device_is_not_printed() {
    let x = Device::new().tensor([2], &[1.0f32, 2.0]).unwrap();
    assert_eq!(x.to_string(), "f32 [2] (not in host memory; `to_vec(&backend)` reads it)");
    assert_eq!(format!("{x:?}"), "Tensor<f32> [2]");
}
