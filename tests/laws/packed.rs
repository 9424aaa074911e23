//! Packed weights give the same results as unpacked ones.
use crate::device::Device;
use crate::model::{data, nmse, values};
use rocm_ops::backend::{Call, Execute, Op, Operands, Packing};
use rocm_ops::combine::{Intercept, Wrapper};
use rocm_ops::model::Weight;
use rocm_ops::ops::{EmbeddingMethods, LinearMethods, LinearOps};
use rocm_ops::quant::{BlockQ4_0, BlockQ8_0, Encode, Q4_0, Q8_0};
use rocm_ops::{
    AnyTensor, Backend, Checked, Cpu, DType, Either, Error, Fallback, Float, Host, HostMemory, Reason,
    Reference, Result, Shape, TensorOf, bf16, f16,
};
use std::sync::Arc;

/// Weights of every kind with the same values, rounded to the kind.
fn weights<B: Backend>(b: &B, n: usize, k: usize) -> Vec<Weight<B::Space>> {
    let w = data::<f32>(n * k, 5);
    let (w16, wb): (Vec<f16>, Vec<bf16>) = w.iter().map(|w| (f16::from_f32(*w), bf16::from_f32(*w))).unzip();
    fn blocks<Q: Encode>(w: &[f32]) -> Vec<Q> {
        w.chunks(Q::LEN).map(Q::quantize).collect()
    }
    vec![
        b.tensor(&[n, k], &w).unwrap().into(),
        b.tensor(&[n, k], &w16).unwrap().into(),
        b.tensor(&[n, k], &wb).unwrap().into(),
        b.tensor(&[n, k / 32], &blocks::<BlockQ8_0>(&w)).unwrap().into(),
        b.tensor(&[n, k / 32], &blocks::<BlockQ4_0>(&w)).unwrap().into(),
    ]
}

/// The products of `b`, and those of the reference with the unpacked weight.
fn agrees<T: Float, B: LinearOps<T>>(b: &B, [m, k, n]: [usize; 3]) {
    let reference = Reference::new();
    let rounding = match T::DTYPE {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => 0.0,
    };
    for (held, plain) in weights(b, n, k).into_iter().zip(weights(&reference, n, k)) {
        let what = format!("{} {} x {} [{m}, {k}] [{n}, {k}]", b.name(), T::DTYPE, held.dtype());
        let (x, bytes, dims) = (data::<T>(m * k, 7), held.bytes(), held.dims().to_vec());
        let limit = if held.dtype().is_block() { 1e-4 } else { 1e-10 + rounding * rounding };
        let packed = b.pack_weight(held).unwrap();
        assert_eq!(
            (packed.dtype(), packed.dims()),
            (plain.dtype(), &dims[..]),
            "{what}: rules hold as they are"
        );
        let most = bytes.max(bytes / n.max(1) * n.next_multiple_of(32)) + 64 * n.div_ceil(16);
        assert!((bytes..=most).contains(&packed.bytes()), "{what}: {}", packed.bytes());
        assert_eq!(
            packed.as_ref().to_vec(b).unwrap(),
            plain.as_ref().to_vec(&reference).unwrap(),
            "{what}: unpacked"
        );

        let given = b.tensor(&[m, k], &x).unwrap();
        let got = b.linear(given.as_ref(), &packed).unwrap();
        assert_eq!(got.dims(), [m, n], "{what}");
        let bias = data::<f32>(n, 9);
        let want = |biased: bool| -> Vec<f64> {
            let (x, bias) = (Host::view(&x, &[m, k]).unwrap(), Host::view(&bias, &[n]).unwrap());
            let y = if biased {
                reference.linear_bias(x, &plain, Some(bias.any()))
            } else {
                reference.linear(x, &plain)
            };
            values::<_, T>(&reference, y.unwrap().as_ref())
        };
        let biased = b.tensor(&[n], &bias).unwrap();
        let biased = b.linear_bias(given.as_ref(), &packed, Some(biased.any())).unwrap();
        for (got, want) in [(&got, want(false)), (&biased, want(true))] {
            if m > 0 {
                let error = nmse(&values(b, got.as_ref()), &want);
                assert!(error <= limit, "{what}: {error:e}");
            }
        }

        // Rows of x with other rows between them.
        let apart: Vec<T> = x.chunks(k).flat_map(|row| [row, row].concat()).collect();
        let apart = b.tensor(&[m, 2 * k], &apart).unwrap();
        let apart = b.linear(apart.as_ref().narrow(1, k, k).unwrap(), &packed).unwrap();
        assert_eq!(values(b, apart.as_ref()), values(b, got.as_ref()), "{what}: rows apart");

        let wrong = b.zeros::<T>(&[2, k + 1]).unwrap();
        assert!(matches!(b.linear(wrong.as_ref(), &packed), Err(Error::Shape { .. })), "{what}");
    }
}

#[test]
fn packed_weights_compute_what_they_did() {
    let shapes =
        [[1, 96, 40], [2, 64, 100], [3, 32, 16], [15, 160, 70], [40, 96, 33], [5, 64, 8], [0, 64, 64]];
    for shape in shapes.into_iter().chain([[1, 1056, 500], [2, 1024, 520], [6, 1024, 530], [33, 800, 700]]) {
        agrees::<f32, _>(&Cpu::new(), shape);
        agrees::<f16, _>(&Cpu::new(), shape);
        agrees::<bf16, _>(&Cpu::new(), shape);
    }
    agrees::<f64, _>(&Cpu::new(), [3, 64, 100]);
    agrees::<f32, _>(&Reference::new(), [3, 64, 100]);
    agrees::<f32, _>(&Checked::new(Cpu::new(), Reference::new()), [3, 1024, 520]);
    agrees::<f32, _>(&Fallback::new(Device::limited(), Cpu::new()), [3, 64, 100]);
    agrees::<f32, _>(&Fallback::new(Cpu::new(), Reference::new()), [3, 1024, 520]);
    agrees::<f32, _>(&Either::<Device, Cpu>::Right(Cpu::new()), [3, 1024, 520]);
}

/// A packed weight, and the same weight unpacked.
fn packed(dtype: DType) -> (Weight<Host>, Weight<Host>) {
    let weight = || weights(&Cpu::new(), 520, 1024).into_iter().find(|w| w.dtype() == dtype).unwrap();
    let packed = Cpu::new().pack_weight::<f32>(weight()).unwrap();
    assert!(packed.packing().is_some(), "{dtype}");
    (packed, weight())
}

#[test]
fn a_packed_weight_is_unpacked_for_whoever_does_not_read_its_order() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::Block(&Q8_0), DType::Block(&Q4_0)] {
        let (packed, plain) = packed(dtype);
        let x = Cpu::new().tensor(&[2, 1024], &data::<f32>(2048, 9)).unwrap();
        let list = |y: TensorOf<Cpu, f32>| values(&Cpu::new(), y.as_ref());
        let direct = |w: &Weight<Host>| Plain(Cpu::new()).linear(x.as_ref(), w).map(list);
        let want = direct(&plain).unwrap();
        // The backend declines beforehand, and is never called with a packing that it does not read.
        let refused = direct(&packed).unwrap_err();
        assert!(
            matches!(refused, Error::Unsupported { reason: Reason::Packed { operand: "weight", .. }, .. }),
            "{refused}"
        );

        let fallback = Fallback::new(Plain(Cpu::new()), Plain(Cpu::new()));
        assert_eq!(list(fallback.linear(x.as_ref(), &packed).unwrap()), want);
        let events = fallback.events();
        assert!(
            matches!(events[0].reason, Reason::Packed { operand: "weight", packing: "panels" }),
            "{events:?}"
        );
        let checked = Checked::new(Cpu::new(), Plain(Cpu::new()));
        checked.linear(x.as_ref(), &packed).unwrap();

        // An op that the packing is not meant for.
        let rows = Cpu::new().tensor(&[1], &[3u32]).unwrap();
        let row: Result<TensorOf<Cpu, f32>> = Cpu::new().embedding(&packed, &rows);
        assert!(matches!(
            row,
            Err(Error::Unsupported { reason: Reason::Packed { operand: "table", .. }, .. })
        ));
        let row: TensorOf<Cpu, f32> =
            Fallback::new(Cpu::new(), Cpu::new()).embedding(&packed, &rows).unwrap();
        let same: TensorOf<Cpu, f32> = Cpu::new().embedding(&plain, &rows).unwrap();
        assert_eq!(values(&Cpu::new(), row.as_ref()), values(&Cpu::new(), same.as_ref()));
    }
}

#[test]
fn a_packed_tensor_is_not_read_as_a_plain_one() {
    let (mut packed, _) = packed(DType::F32);
    assert!(packed.as_ref().typed::<f32>().is_none());
    let view = packed.as_ref().narrow(0, 0, 4).unwrap_err();
    assert!(matches!(view, Error::View { .. }), "{view}");
    assert!(packed.as_mut().is_none(), "it is never written");
    // It is already packed and stays unchanged.
    let order = packed.packing();
    let again = Cpu::new().pack_weight::<f32>(packed).unwrap();
    assert_eq!(again.packing(), order);
    // Kernels that accumulate in f64 do not read panels.
    let x = Cpu::new().tensor(&[2, 1024], &data::<f64>(2048, 9)).unwrap();
    assert!(matches!(Cpu::new().linear(x.as_ref(), &again), Err(Error::Unsupported { .. })));
    // Bytes of the wrong length or alignment are refused when the tensor is created.
    let (order, shape) = (order.unwrap(), Shape::new(&[520, 1024]).unwrap());
    let few = Cpu::new().alloc::<u8>(1000).unwrap();
    assert!(matches!(Weight::<Host>::packed(few, DType::F32, shape, order), Err(Error::OutOfBounds { .. })));
    let many = Cpu::new().alloc::<u8>(4 << 20).unwrap();
    assert!(matches!(Weight::<Host>::packed(many, DType::I32, shape, order), Err(Error::View { .. })));
    let odd: HostMemory<u8> = Arc::new(Odd(vec![0; 4 << 20]));
    let odd = Cpu::new().adopt(odd).unwrap();
    assert!(matches!(Weight::<Host>::packed(odd, DType::F32, shape, order), Err(Error::Align { .. })));
}

/// A packing of another crate with the name of one of `Cpu`'s, that says that a weight needs no memory.
static FALSE_SIZE: Packing = Packing::new("panels", |_, _| Some(0), 1, |_, _, _, _| Ok(()));

#[test]
fn a_false_size_of_a_packed_weight_is_an_error() {
    let cpu = Cpu::new();
    let x = cpu.zeros::<f32>(&[3, 256]).unwrap();
    for (dtype, n) in [(DType::F32, 64), (DType::F16, 64), (DType::BF16, 1 << 20)] {
        for len in [0, 1, 64] {
            let memory = cpu.alloc::<u8>(len).unwrap();
            let shape = Shape::new(&[n, 256]).unwrap();
            let weight = Weight::<Host>::packed(memory, dtype, shape, &FALSE_SIZE).unwrap();
            let error = cpu.linear(&x, &weight).unwrap_err().to_string();
            assert!(error.contains(&format!("memory of {len} bytes, wanted ")), "{dtype}: {error}");
        }
    }
}

/// Memory that does not start on a cache line.
struct Odd(Vec<u8>);
impl AsRef<[u8]> for Odd {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.0.as_ptr().align_offset(64) + 4..]
    }
}

/// The CPU backend without its packings.
#[derive(Clone, Debug)]
struct Plain(Cpu);
impl Wrapper for Plain {
    type Inner = Cpu;
    fn inner(&self) -> &Cpu {
        &self.0
    }
    fn around(&self, inner: Cpu) -> Self {
        Plain(inner)
    }
}
impl<O: Op> Intercept<O> for Plain
where
    Cpu: Execute<O>,
{
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        on.require_plain()?;
        self.0.support(op, on)
    }
    fn execute(&self, call: Call<'_, '_, O, Host>) -> Result<()> {
        assert_eq!(
            call.operands().require_plain(),
            Ok(()),
            "the gate lets no order through that is not read"
        );
        self.0.execute(call)
    }
    fn reads(&self, _: &O, _: &'static str, _: &'static Packing) -> bool {
        false
    }
    fn pack(&self, _: &O, _: &'static str, x: AnyTensor<Host>) -> Result<AnyTensor<Host>> {
        Ok(x)
    }
}

#[test]
fn checked_compares_packed_products() {
    let wrong = || Checked::new(Device::new().wrong("linear"), Reference::new());
    let go = |b: &Checked<Device, Reference>| {
        let weight = b.tensor(&[64, 64], &data::<f32>(4096, 1)).unwrap();
        let packed = b.pack_weight::<f32>(weight).unwrap();
        let x = b.tensor(&[1, 64], &data::<f32>(64, 2)).unwrap();
        b.linear(x.as_ref(), &packed).map(drop)
    };
    assert!(go(&Checked::new(Device::new(), Reference::new())).is_ok());
    let error = go(&wrong()).unwrap_err();
    assert!(matches!(error, Error::Mismatch { op: "linear", .. }), "{error}");
    let every_other = wrong().every(2);
    assert!(go(&every_other).is_err() && go(&every_other).is_ok() && every_other.calls() == 2);
}

#[test]
fn what_is_no_matrix_stays_as_it_is() {
    let b = Cpu::new();
    for dims in [&[4096usize, 256][..], &[2, 64, 8192], &[1 << 20], &[]] {
        let packed = b.pack_weight::<f32>(b.zeros::<f32>(dims).unwrap()).unwrap();
        assert_eq!(packed.packing().is_some(), dims.len() == 2, "{dims:?}");
    }
    for dims in [[0, 64], [64, 0]] {
        let packed = b.pack_weight::<f32>(b.zeros::<f32>(&dims).unwrap()).unwrap();
        let x = b.zeros::<f32>(&[3, dims[1]]).unwrap();
        assert_eq!(b.linear(x.as_ref(), &packed).unwrap().dims(), [3, dims[0]]);
    }
}
