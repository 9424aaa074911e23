//! Blocks: quantize bit for bit, dequantize, qembedding.
use crate::data::{Buffer, Element, Layout, Random, assert_exact, check_untouched, pick, view};
use crate::host::{Record, WAVES, device, run};
use half::{bf16, f16};
use ops_kernels::index::Report;
use ops_kernels::{BlockFormat, ElementType, OperandView, quant};

/// Formats with one kind of everything that kernels distinguish: offsets, signed codes, minima, groups of half a step.
pub(crate) const FORMATS: [BlockFormat; 5] =
    [BlockFormat::Q4_0, BlockFormat::Q8_0, BlockFormat::Q4K, BlockFormat::Q5K, BlockFormat::Q6K];
const QUANTIZED: [BlockFormat; 2] = [BlockFormat::Q4_0, BlockFormat::Q8_0];

/// The public reference, one block at a time.
fn encode(format: BlockFormat, x: &[f32]) -> Vec<u8> {
    let larger =
        |(best, most): (f32, f32), &v: &f32| if v.abs() > most { (v, v.abs()) } else { (best, most) };
    let (extreme, _) = x.iter().fold((0.0, 0.0), larger);
    let d = if format == BlockFormat::Q4_0 { extreme / -8.0 } else { extreme.abs() / 127.0 };
    let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
    let mut out = f16::from_f32(d).to_le_bytes().to_vec();
    if format == BlockFormat::Q4_0 {
        let code = |v: f32| (((v * inverse) + 8.5) as i8).min(15) as u8;
        out.extend((0..16).map(|i| code(x[i]) | code(x[i + 16]) << 4));
    } else {
        out.extend(x.iter().map(|v| (v * inverse).round() as i8 as u8));
    }
    out
}

fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The scale and minimum of a group, of twelve bytes.
fn six_bits(s: &[u8], group: usize) -> (f32, f32) {
    let (scale, min) = match group {
        0..4 => (s[group] & 63, s[group + 4] & 63),
        _ => (s[group + 4] & 15 | s[group - 4] >> 6 << 4, s[group + 4] >> 4 | s[group] >> 6 << 4),
    };
    (f32::from(scale), f32::from(min))
}

/// Value `i` of a block.
fn value(format: BlockFormat, block: &[u8], i: usize) -> f32 {
    let nibble = |byte: u8, high: bool| if high { byte >> 4 } else { byte & 15 };
    match format {
        BlockFormat::Q4_0 => (f32::from(nibble(block[2 + i % 16], i >= 16)) - 8.0) * half(block, 0),
        BlockFormat::Q8_0 => f32::from(block[2 + i] as i8) * half(block, 0),
        BlockFormat::Q4K | BlockFormat::Q5K => {
            let (group, codes) = (i / 32, if format == BlockFormat::Q4K { 16 } else { 48 });
            let (scale, min) = six_bits(&block[4..16], group);
            let mut q = nibble(block[codes + group / 2 * 32 + i % 32], group % 2 == 1);
            if format == BlockFormat::Q5K {
                q |= (block[16 + i % 32] >> group & 1) << 4;
            }
            half(block, 0) * scale * f32::from(q) - half(block, 2) * min
        }
        BlockFormat::Q6K => {
            let (part, at) = (i / 128, i % 128);
            let low = nibble(block[part * 64 + at % 64], at >= 64);
            let high = block[128 + part * 32 + at % 32] >> (at / 32 * 2) & 3;
            let scale = f32::from(block[192 + i / 16] as i8);
            half(block, 208) * scale * (f32::from(low | high << 4) - 32.0)
        }
        other => unreachable!("{other:?} is tested by the suite"),
    }
}

pub(crate) fn decode(format: BlockFormat, block: &[u8]) -> Vec<f32> {
    (0..format.values() as usize).map(|i| value(format, block, i)).collect()
}

fn random_row(n: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let scale: Vec<f64> = (0..n / 32 + 1).map(|_| 10f64.powi(random.below(9) as i32 - 6)).collect();
    (0..n).map(|i| (random.normal() * scale[i / 32]) as f32).collect()
}

/// Blocks of random bits, whose values are of the order of one.
pub(crate) fn random_blocks(format: BlockFormat, blocks: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut one = || {
        let mut block: Vec<u8> =
            (0..ElementType::Block(format).bytes()).map(|_| random.below(256) as u8).collect();
        let (at, most): (&[usize], f32) = match format {
            BlockFormat::Q4_0 => (&[0], 8.0),
            BlockFormat::Q8_0 => (&[0], 128.0),
            BlockFormat::Q4K => (&[0, 2], 64.0 * 16.0),
            BlockFormat::Q5K => (&[0, 2], 64.0 * 32.0),
            BlockFormat::Q6K => (&[208], 128.0 * 32.0),
            other => unreachable!("{other:?} is tested by the suite"),
        };
        for at in at {
            let scale = f16::from_f32((random.unit() as f32 + 0.5) * 2.0 / most);
            block[*at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
        block
    };
    (0..blocks).flat_map(|_| one()).collect()
}

pub(crate) fn blocks_view<'a>(
    buffer: &Buffer<u8>,
    strides: &'a [i64],
    format: BlockFormat,
) -> OperandView<'a> {
    OperandView { data: buffer.address(), strides, dtype: ElementType::Block(format) }
}

#[test]
fn quantize_is_bit_exact() {
    for format in QUANTIZED {
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
                let y = Buffer::filled(0x77u8, count * bytes_of(format), 2);
                let strides = [blocks as i64, 1];
                for wave in WAVES {
                    let to = blocks_view(&y, &strides, format);
                    let prepared = quant::quantize(&[rows, blocks], view(&from, &layout), to, &device(wave));
                    let (launch, args) = prepared.expect("a kernel");
                    run(wave, &launch, &args);
                    let want: Vec<u8> = x.chunks(32).flat_map(|b| encode(format, b)).collect();
                    assert_exact(&format!("quantize {format:?} {rows}x{blocks}"), y.slice(), &want);
                    y.check_guards();
                }
            }
        }
    }
}

pub(crate) fn bytes_of(format: BlockFormat) -> usize {
    ElementType::Block(format).bytes()
}

#[test]
fn dequantize_is_exact() {
    for format in FORMATS {
        let (rows, blocks) = (5u64, 3u64);
        let values = blocks * format.values();
        let bytes = random_blocks(format, 15, 4);
        let x = Buffer::new(&bytes, 2);
        let strides = [blocks as i64, 1];
        for layout in [
            Layout::contiguous(&[rows, values]),
            Layout::padded(&[rows, values], 1),
            Layout::scattered(&[rows, values]),
        ] {
            let y = Buffer::filled(77f32, layout.len, 0);
            let from = blocks_view(&x, &strides, format);
            let prepared = quant::dequantize(&[rows, blocks], from, view(&y, &layout), &device(64));
            let (launch, args) = prepared.expect("a kernel");
            run(64, &launch, &args);
            let want: Vec<f32> = bytes.chunks(bytes_of(format)).flat_map(|b| decode(format, b)).collect();
            assert_exact(&format!("dequantize {format:?}"), &pick(&y, &layout), &want);
            check_untouched(&y, &layout, 77.0);
        }
    }
}

fn embeddings<I: Element, T: Element>(absent: I) {
    for format in FORMATS {
        let (bound, blocks) = (6u64, 3u64);
        let bytes = random_blocks(format, 18, 5);
        let table = Buffer::new(&bytes, 4);
        let ids: Vec<I> = [5.0, 0.0, 5.0, 9.0].map(I::from_f64).into_iter().chain([absent]).collect();
        let ids_buffer = Buffer::new(&ids, 0);
        let id_layout = Layout::contiguous(&[5]);
        let layout = Layout::padded(&[5, blocks * format.values()], 4);
        let y = Buffer::filled(T::from_f64(77.0), layout.len, 0);
        let strides = [blocks as i64, 1];
        let record = Record::default();
        let slot = record.slot();
        let views = [blocks_view(&table, &strides, format), view(&ids_buffer, &id_layout), view(&y, &layout)];
        let report = Report { error: slot.address(), op: 3, operand: 1 };
        let (launch, args) =
            quant::embedding([5, blocks, bound], views, report, &device(32)).expect("a kernel");
        run(32, &launch, &args);
        let row_bytes = bytes_of(format) * blocks as usize;
        let want: Vec<T> = ids
            .iter()
            .flat_map(|id| match id.to_f64() {
                i if *id == absent || i >= 6.0 => vec![T::default(); 3 * format.values() as usize],
                i => bytes[i as usize * row_bytes..][..row_bytes]
                    .chunks(bytes_of(format))
                    .flat_map(|b| decode(format, b))
                    .map(|v| T::from_f64(f64::from(v)))
                    .collect(),
            })
            .collect();
        assert_exact(&format!("qembedding {format:?}"), &pick(&y, &layout), &want);
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
