//! Products with quantized weights whose activations are not rounded.
use ops_core::ops::{ExpertMethods, LinearMethods, QuantMethods};
use ops_core::quant::FORMATS;
use ops_core::{AnyTensor, Backend, BlockInfo, DType, Determinism, Float, Layout, bf16, f16};
use ops_cpu::{Activations, Cpu, Host, Reference};

/// Values in −1..1, from a hash of their positions.
fn values(n: usize) -> Vec<f32> {
    let hash = |at: usize| {
        (at as u64 + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23)
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    (0..n).map(|at| (hash(at) >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// A weight `[n, k]`.
fn weight(format: &'static BlockInfo, [n, k]: [usize; 2]) -> AnyTensor<Host> {
    let cpu = Cpu::new();
    if format.encodes() {
        return cpu.quantize(cpu.tensor(&[n, k], &values(n * k)).unwrap(), DType::Block(format)).unwrap();
    }
    // The other formats begin with their scale.
    let mut bytes: Vec<u8> =
        values(n * k / format.values() * format.bytes()).iter().map(|v| (v * 127.0) as u8).collect();
    let scale = f16::from_f32(0.01).to_le_bytes();
    bytes.chunks_exact_mut(format.bytes()).for_each(|block| block[..2].copy_from_slice(&scale));
    let bytes = cpu.tensor(&[bytes.len()], &bytes).unwrap().into_buffer();
    let layout = Layout::contiguous(&[n, k / format.values()]).unwrap();
    AnyTensor::new(bytes, DType::Block(format), layout).unwrap()
}

fn error(got: &[f32], want: &[f32]) -> f64 {
    let square = |v: f32| f64::from(v).powi(2);
    let error: f64 = got.iter().zip(want).map(|(g, w)| square(g - w)).sum();
    error / want.iter().map(|w| square(*w)).sum::<f64>()
}

fn exact() -> Cpu {
    Cpu::builder().activations(Activations::Exact).build().unwrap()
}

/// The error of `linear`, plain and with a weight that `packed_by` packed.
fn of_linear<T: Float>(cpu: &Cpu, packed_by: &Cpu, format: &'static BlockInfo, rows: usize) -> [f64; 2] {
    let shape = [70, 512];
    let x: Vec<T> = values(rows * shape[1]).into_iter().map(|v| T::from_f64(v.into())).collect();
    let x = cpu.tensor(&[rows, shape[1]], &x).unwrap();
    let f32s = |y: Vec<T>| y.into_iter().map(|v| v.to_f64() as f32).collect::<Vec<_>>();
    let want = f32s(Reference::new().linear(&x, weight(format, shape)).unwrap().to_vec(cpu).unwrap());
    let packed = packed_by.pack_weight::<T>(weight(format, shape)).unwrap();
    [weight(format, shape), packed]
        .map(|w| error(&f32s(cpu.linear(&x, &w).unwrap().to_vec(cpu).unwrap()), &want))
}

#[test]
fn products_are_those_of_decoded_weights() {
    let by_row =
        Cpu::builder().activations(Activations::Exact).determinism(Determinism::Batch).build().unwrap();
    for &format in FORMATS {
        for rows in [1, 3, 20] {
            for cpu in [exact(), by_row.clone()] {
                for error in of_linear::<f32>(&cpu, &cpu, format, rows) {
                    assert!(error <= 1e-12, "{}, {rows} rows: {error:e}", format.name());
                }
            }
        }
        // Rounded once to the type of the result.
        let errors = [
            of_linear::<f16>(&exact(), &exact(), format, 2),
            of_linear::<bf16>(&exact(), &exact(), format, 2),
        ];
        let [half, brain] = errors.map(|[plain, packed]| plain.max(packed));
        assert!(half <= 1e-7 && brain <= 1e-5, "{}: {half:e}, {brain:e}", format.name());
    }
}

/// The bound above can fail.
#[test]
fn by_default_activations_are_rounded() {
    for format in ["q8_0", "q4_0", "q4_k", "q6_k", "iq4_nl", "mxfp4"] {
        let format = FORMATS.iter().find(|known| known.name() == format).unwrap();
        for error in of_linear::<f32>(&Cpu::new(), &Cpu::new(), format, 3) {
            assert!(error > 1e-7 && error < 1e-3, "{}: {error:e}", format.name());
        }
    }
}

#[test]
fn weights_that_were_packed_for_rounded_activations_are_read() {
    for format in ["q8_0", "q4_0"] {
        let format = FORMATS.iter().find(|known| known.name() == format).unwrap();
        let [_, packed] = of_linear::<f32>(&exact(), &Cpu::new(), format, 3);
        assert!(packed <= 1e-12, "{}: {packed:e}", format.name());
    }
}

#[test]
fn products_of_experts_are_those_of_decoded_weights() {
    let (cpu, [experts, n, k]) = (exact(), [3, 70, 512]);
    for &format in FORMATS {
        let weight = weight(format, [experts * n, k]);
        let layout = Layout::contiguous(&[experts, n, k / format.values()]).unwrap();
        let weight = AnyTensor::new(weight.into_buffer(), DType::Block(format), layout).unwrap();
        let x = cpu.tensor(&[5, 1, k], &values(5 * k)).unwrap();
        let ids = cpu.tensor(&[5, 2], &[0_u32, 2, 1, 0, 2, 1, 2, 0, 1, 2]).unwrap();
        let want = Reference::new().linear_experts(&x, &weight, &ids, None).unwrap().to_vec(&cpu).unwrap();
        let got = cpu.linear_experts(&x, &weight, &ids, None).unwrap().to_vec(&cpu).unwrap();
        let error = error(&got, &want);
        assert!(error <= 1e-12, "{}: {error:e}", format.name());
    }
}
