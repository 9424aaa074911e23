//! q4_0 and q8_0: quantize bit for bit, dequantize, qembedding.
use crate::data::{Buffer, Element, Layout, Random, assert_exact, check_untouched, pick, view};
use crate::host::{Record, WAVES, device, run};
use half::{bf16, f16};
use ops_kernels::index::Report;
use ops_kernels::{ElementType, OperandView, quant};

pub(crate) const FORMATS: [ElementType; 2] = [ElementType::Q4_0, ElementType::Q8_0];

/// The public reference, one block at a time.
fn encode(format: ElementType, x: &[f32]) -> Vec<u8> {
    let larger =
        |(best, most): (f32, f32), &v: &f32| if v.abs() > most { (v, v.abs()) } else { (best, most) };
    let (extreme, _) = x.iter().fold((0.0, 0.0), larger);
    let d = if format == ElementType::Q4_0 { extreme / -8.0 } else { extreme.abs() / 127.0 };
    let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
    let mut out = f16::from_f32(d).to_le_bytes().to_vec();
    if format == ElementType::Q4_0 {
        let code = |v: f32| (((v * inverse) + 8.5) as i8).min(15) as u8;
        out.extend((0..16).map(|i| code(x[i]) | code(x[i + 16]) << 4));
    } else {
        out.extend(x.iter().map(|v| (v * inverse).round() as i8 as u8));
    }
    out
}

pub(crate) fn decode(format: ElementType, block: &[u8]) -> Vec<f32> {
    let d = f16::from_le_bytes([block[0], block[1]]).to_f32();
    let q = |i: usize| match format {
        ElementType::Q4_0 if i < 16 => i32::from(block[2 + i] & 15) - 8,
        ElementType::Q4_0 => i32::from(block[2 + i - 16] >> 4) - 8,
        _ => i32::from(block[2 + i] as i8),
    };
    (0..32).map(|i| q(i) as f32 * d).collect()
}

fn random_row(n: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let scale: Vec<f64> = (0..n / 32 + 1).map(|_| 10f64.powi(random.below(9) as i32 - 6)).collect();
    (0..n).map(|i| (random.normal() * scale[i / 32]) as f32).collect()
}

/// Blocks of random values, `rows` by `blocks`.
pub(crate) fn random_blocks(format: ElementType, blocks: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let x: Vec<f32> = (0..blocks * 32).map(|_| random.normal() as f32).collect();
    x.chunks(32).flat_map(|b| encode(format, b)).collect()
}

pub(crate) fn blocks_view<'a>(
    buffer: &Buffer<u8>,
    strides: &'a [i64],
    format: ElementType,
) -> OperandView<'a> {
    OperandView { data: buffer.address(), strides, dtype: format }
}

#[test]
fn quantize_is_bit_exact() {
    for format in FORMATS {
        for (rows, blocks, offset) in [(1u64, 1u64, 0), (3, 5, 0), (40, 9, 1), (0, 4, 0)] {
            let count = (rows * blocks) as usize;
            let mut x = random_row(count * 32, 3);
            if count > 4 {
                x[..32].fill(0.0);
                (x[32], x[40], x[60]) = (7.5, -7.5, 7.5); // equal magnitudes: the first counts
                x[64] = f32::NAN;
                x[96] = f32::INFINITY;
                x[128] = 1e-42;
            }
            for layout in [Layout::contiguous(&[rows, blocks * 32]), Layout::scattered(&[rows, blocks * 32])]
            {
                let mut laid = vec![0f32; layout.len];
                layout.offsets().iter().zip(&x).for_each(|(&o, &v)| laid[o] = v);
                let from = Buffer::new(&laid, offset);
                let y = Buffer::filled(0x77u8, count * format.bytes(), 2);
                let strides = [blocks as i64, 1];
                for wave in WAVES {
                    let to = blocks_view(&y, &strides, format);
                    let prepared = quant::quantize(&[rows, blocks], view(&from, &layout), to, &device(wave));
                    let (launch, args) = prepared.expect("a kernel");
                    run(wave, &launch, &args);
                    let want: Vec<u8> = x.chunks(32).flat_map(|b| encode(format, b)).collect();
                    assert_exact(&format!("quantize {format} {rows}x{blocks}"), y.slice(), &want);
                    y.check_guards();
                }
            }
        }
    }
}

fn dequantizes<T: Element>() {
    for format in FORMATS {
        let (rows, blocks) = (5u64, 3u64);
        let bytes = random_blocks(format, 15, 4);
        let x = Buffer::new(&bytes, 2);
        let strides = [blocks as i64, 1];
        for layout in [
            Layout::contiguous(&[rows, blocks * 32]),
            Layout::padded(&[rows, blocks * 32], 1),
            Layout::scattered(&[rows, blocks * 32]),
        ] {
            let y = Buffer::filled(T::from_f64(77.0), layout.len, 0);
            let from = blocks_view(&x, &strides, format);
            let prepared = quant::dequantize(&[rows, blocks], from, view(&y, &layout), &device(64));
            let (launch, args) = prepared.expect("a kernel");
            run(64, &launch, &args);
            let want: Vec<T> = bytes
                .chunks(format.bytes())
                .flat_map(|b| decode(format, b))
                .map(|v| T::from_f64(f64::from(v)))
                .collect();
            assert_exact(&format!("dequantize {format}"), &pick(&y, &layout), &want);
            check_untouched(&y, &layout, T::from_f64(77.0));
        }
    }
}

#[test]
fn dequantize_is_exact() {
    dequantizes::<f16>();
    dequantizes::<bf16>();
    dequantizes::<f32>();
    dequantizes::<f64>();
}

fn embeddings<I: Element, T: Element>(absent: I) {
    for format in FORMATS {
        let (bound, blocks) = (6u64, 3u64);
        let bytes = random_blocks(format, 18, 5);
        let table = Buffer::new(&bytes, 4);
        let ids: Vec<I> = [5.0, 0.0, 5.0, 9.0].map(I::from_f64).into_iter().chain([absent]).collect();
        let ids_buffer = Buffer::new(&ids, 0);
        let id_layout = Layout::contiguous(&[5]);
        let layout = Layout::padded(&[5, blocks * 32], 4);
        let y = Buffer::filled(T::from_f64(77.0), layout.len, 0);
        let strides = [blocks as i64, 1];
        let record = Record::default();
        let slot = record.slot();
        let views = [blocks_view(&table, &strides, format), view(&ids_buffer, &id_layout), view(&y, &layout)];
        let report = Report { error: slot.address(), op: 3, operand: 1 };
        let (launch, args) =
            quant::embedding([5, blocks, bound], views, report, &device(32)).expect("a kernel");
        run(32, &launch, &args);
        let row_bytes = format.bytes() * blocks as usize;
        let want: Vec<T> = ids
            .iter()
            .flat_map(|id| match id.to_f64() {
                i if *id == absent || i >= 6.0 => vec![T::default(); 96],
                i => bytes[i as usize * row_bytes..][..row_bytes]
                    .chunks(format.bytes())
                    .flat_map(|b| decode(format, b))
                    .map(|v| T::from_f64(f64::from(v)))
                    .collect(),
            })
            .collect();
        assert_exact(&format!("qembedding {format}"), &pick(&y, &layout), &want);
        check_untouched(&y, &layout, T::from_f64(77.0));
        let got = record.get();
        assert_eq!((got.op, got.operand, got.position, got.index, got.bound), (3, 1, 3, 9, 6));
    }
}

#[test]
fn qembedding_is_exact() {
    embeddings::<u32, f16>(u32::MAX);
    embeddings::<i64, bf16>(i64::MAX);
    embeddings::<i32, f32>(i32::MAX);
    embeddings::<u8, f64>(u8::MAX);
}
