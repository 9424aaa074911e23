//! Weights packed once compute what they computed before.
use crate::device::Device;
use crate::model::{data, nmse, values};
use rocm_ops::model::{KeepsWeights, PackWeights, Weight};
use rocm_ops::ops::LinearOps;
use rocm_ops::quant::{Block, BlockQ4_0, BlockQ8_0};
use rocm_ops::{
    Backend, Checked, Cpu, DType, Either, Error, Fallback, Float, Host, Reference, View, bf16, f16,
};

/// The least a backend does for its users' weights: it keeps them.
impl KeepsWeights for Device {}

/// Every kind of weight with the same values, rounded to the kind.
fn weights<B: Backend>(b: &B, n: usize, k: usize) -> Vec<Weight<B::Space>> {
    let w = data::<f32>(n * k, 5);
    let (w16, wb): (Vec<f16>, Vec<bf16>) = w.iter().map(|w| (f16::from_f32(*w), bf16::from_f32(*w))).unzip();
    fn blocks<Q: Block>(w: &[f32]) -> Vec<Q> {
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

/// The products of `b` beside those of the reference with the weight as it was.
fn agrees<T: Float, B: PackWeights<T>>(b: &B, [m, k, n]: [usize; 3]) {
    let reference = Reference::new();
    let rounding = match T::DTYPE {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => 0.0,
    };
    for (held, plain) in weights(b, n, k).into_iter().zip(weights(&reference, n, k)) {
        let what = format!("{} {} x {} [{m}, {k}] [{n}, {k}]", b.name(), T::DTYPE, held.dtype());
        let (x, bytes) = (data::<T>(m * k, 7), held.bytes());
        let limit = match held.dtype().name() {
            "q8_0" | "q4_0" => 1e-4,
            _ => 1e-10 + rounding * rounding,
        };
        let packed = b.pack(held).unwrap();
        let most = bytes.max(bytes / n.max(1) * n.next_multiple_of(32)) + 64 * n.div_ceil(16);
        assert!((bytes..=most).contains(&b.packed_bytes(&packed)), "{what}: {}", b.packed_bytes(&packed));

        let given = b.tensor(&[m, k], &x).unwrap();
        let got = b.linear_packed(given.as_ref(), &packed).unwrap();
        assert_eq!(got.dims(), [m, n], "{what}");
        let want: Vec<f64> = {
            let want = reference.linear(Host::view(&x, &[m, k]).unwrap(), &plain).unwrap();
            values::<_, T>(&reference, want.as_ref())
        };
        if m > 0 {
            let error = nmse(&values(b, got.as_ref()), &want);
            assert!(error <= limit, "{what}: {error:e}");
        }

        // Rows of x with others between them.
        let apart: Vec<T> = x.chunks(k).flat_map(|row| [row, row].concat()).collect();
        let apart = b.tensor(&[m, 2 * k], &apart).unwrap();
        let apart = b.linear_packed(apart.as_ref().narrow(1, k, k).unwrap(), &packed).unwrap();
        assert_eq!(values(b, apart.as_ref()), values(b, got.as_ref()), "{what}: rows apart");

        let wrong = b.zeros::<T>(&[2, k + 1]).unwrap();
        assert!(matches!(b.linear_packed(wrong.as_ref(), &packed), Err(Error::Shape { .. })), "{what}");
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
    agrees::<f32, _>(&Checked::new(Cpu::new(), Reference::new()), [3, 64, 100]);
    agrees::<f32, _>(&Fallback::new(Device::limited(), Cpu::new()), [3, 64, 100]);
    agrees::<f32, _>(&Either::<Device, Cpu>::Right(Cpu::new()), [3, 64, 100]);
}

#[test]
fn checked_compares_packed_products() {
    let wrong = || Checked::new(Device::new().wrong("linear"), Reference::new());
    let go = |b: &Checked<Device, Reference>| {
        let weight: Weight<_> = b.tensor(&[64, 64], &data::<f32>(4096, 1)).unwrap().into();
        let packed = PackWeights::<f32>::pack(b, weight).unwrap();
        let x = b.tensor(&[1, 64], &data::<f32>(64, 2)).unwrap();
        b.linear_packed(x.as_ref(), &packed).map(drop)
    };
    assert!(go(&Checked::new(Device::new(), Reference::new())).is_ok());
    let error = go(&wrong()).unwrap_err();
    assert!(matches!(error, Error::Mismatch { op: "linear_packed", .. }), "{error}");
    let every_other = wrong().every(2);
    assert!(go(&every_other).is_err() && go(&every_other).is_ok() && every_other.calls() == 2);
}

#[test]
fn only_matrices_are_packed() {
    let b = Cpu::new();
    for dims in [&[4096usize][..], &[2, 64, 64], &[]] {
        let weight: Weight<_> = b.zeros::<f32>(dims).unwrap().into();
        let error = PackWeights::<f32>::pack(&b, weight).unwrap_err();
        assert!(error.to_string().contains("[n, k]"), "{error}");
    }
    for dims in [[0, 64], [64, 0]] {
        let packed = PackWeights::<f32>::pack(&b, b.zeros::<f32>(&dims).unwrap().into()).unwrap();
        let x = b.zeros::<f32>(&[3, dims[1]]).unwrap();
        assert_eq!(b.linear_packed(x.as_ref(), &packed).unwrap().dims(), [3, dims[0]]);
    }
}
