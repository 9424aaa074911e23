//! Products with rows that become codes, compared with exact loops over the values defined by the format.

use crate::common::{Random, check_products, each_isa, nmse, wide};
use half::f16;
use ops_simd::Isa;
use ops_simd::gemm::MatMut;
use ops_simd::quant::{
    Activations, Format, Sums, TILE_ROWS, TileFormat, Tiles, Weight, multiply, multiply_codes,
    multiply_rows_by_row, multiply_tiles,
};

/// Where a block has its f16 scales.
fn scales_at(format: Format) -> &'static [usize] {
    match format {
        Format::Q8K | Format::Mxfp4 => &[],
        Format::Q4_1 | Format::Q5_1 | Format::Q8_1 | Format::Q4K | Format::Q5K => &[0, 2],
        Format::Q2K => &[80, 82],
        Format::Q3K => &[108],
        Format::Q6K => &[208],
        _ => &[0],
    }
}

/// Random blocks with small scales, some of them with all codes and scales of groups at an extreme.
fn weights(format: Format, blocks: usize) -> Vec<u8> {
    let mut random = Random::new(blocks as u64 + 3);
    let mut raw = Vec::new();
    for b in 0..blocks {
        let extreme = [0x00, 0xff, 0x80, 0x7f].get(b % 7);
        let byte = |random: &mut Random| extreme.copied().unwrap_or(random.bits() as u8);
        let mut block: Vec<u8> = (0..format.block().1).map(|_| byte(&mut random)).collect();
        for at in scales_at(format) {
            block[*at..at + 2].copy_from_slice(&f16::from_f32(random.next() * 0.1).to_bits().to_le_bytes());
        }
        match format {
            Format::Q8K => block[..4].copy_from_slice(&(random.next() * 0.1).to_le_bytes()),
            Format::Mxfp4 => block[0] = 118 + (random.bits() % 8) as u8,
            _ => {}
        }
        raw.extend(block);
    }
    raw
}

/// Value `i` of a block, step by step as the format defines it.
fn value(format: Format, block: &[u8], i: usize) -> f64 {
    let half = |at: usize| f16::from_bits(u16::from_le_bytes([block[at], block[at + 1]])).to_f64();
    let signed = |at: usize| f64::from(block[at] as i8);
    let nibble = |at: usize| usize::from(block[at + i % 16] >> (i / 16 * 4) & 15);
    let fifth = |at: usize| usize::from(block[at + i / 8] >> (i % 8) & 1) << 4;
    const LEVELS: [f64; 16] = [
        -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0,
        113.0,
    ];
    const FLOATS: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    // Scale and minimum of a group of 32 in super-blocks with minima.
    let six_bits = |s: &[u8], group: usize| match group {
        0..4 => (s[group] & 63, s[group + 4] & 63),
        _ => (s[group + 4] & 15 | s[group - 4] >> 6 << 4, s[group + 4] >> 4 | s[group] >> 6 << 4),
    };
    let two_bits = |at: usize| block[at + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    match format {
        Format::Q4_0 => half(0) * (nibble(2) as f64 - 8.0),
        Format::Q4_1 => half(0) * nibble(4) as f64 + half(2),
        Format::Q5_0 => half(0) * ((nibble(6) | fifth(2)) as f64 - 16.0),
        Format::Q5_1 => half(0) * (nibble(8) | fifth(4)) as f64 + half(2),
        Format::Q8_0 => half(0) * signed(2 + i),
        Format::Q8_1 => half(0) * signed(4 + i),
        Format::Q8K => {
            f64::from(f32::from_le_bytes([block[0], block[1], block[2], block[3]])) * signed(4 + i)
        }
        Format::Iq4Nl => half(0) * LEVELS[nibble(2)],
        Format::Iq4Xs => {
            let (group, at) = (i / 32, i % 32);
            let high = u16::from_le_bytes([block[2], block[3]]) >> (2 * group) & 3;
            let s = block[4 + group / 2] >> (group % 2 * 4) & 15 | (high as u8) << 4;
            let code = block[8 + 16 * group + at % 16] >> (at / 16 * 4) & 15;
            half(0) * (f64::from(s) - 32.0) * LEVELS[usize::from(code)]
        }
        Format::Mxfp4 => {
            let (code, scale) = (nibble(1), 2f64.powi(i32::from(block[0]) - 127));
            scale * FLOATS[code % 8] * if code < 8 { 1.0 } else { -1.0 }
        }
        Format::Q2K => {
            let group = block[i / 16];
            half(80) * f64::from(group & 15) * f64::from(two_bits(16)) - half(82) * f64::from(group >> 4)
        }
        Format::Q3K => {
            let j = i / 16;
            let s = block[96 + j % 8] >> (j / 8 * 4) & 15 | (block[104 + j % 4] >> (j / 4 * 2) & 3) << 4;
            let q = two_bits(32) | (block[i % 32] >> (i / 32) & 1) << 2;
            half(108) * (f64::from(s) - 32.0) * (f64::from(q) - 4.0)
        }
        Format::Q4K | Format::Q5K => {
            let five = format == Format::Q5K;
            let (group, (s, m)) = (i / 32, six_bits(&block[4..16], i / 32));
            let mut q = block[if five { 48 } else { 16 } + group / 2 * 32 + i % 32] >> (group % 2 * 4) & 15;
            if five {
                q |= (block[16 + i % 32] >> group & 1) << 4;
            }
            half(0) * f64::from(s) * f64::from(q) - half(2) * f64::from(m)
        }
        Format::Q6K => {
            let (part, at) = (i / 128, i % 128);
            let low = block[part * 64 + at % 64] >> (at / 64 * 4) & 15;
            let high = block[128 + part * 32 + at % 32] >> (at / 32 * 2) & 3;
            half(208) * signed(192 + i / 16) * (f64::from(low | high << 4) - 32.0)
        }
    }
}

fn values(format: Format, raw: &[u8]) -> Vec<f64> {
    let (values, bytes) = format.block();
    raw.chunks(bytes).flat_map(|block| (0..values).map(move |i| value(format, block, i))).collect()
}

#[test]
fn products_match_the_exact_loops() {
    each_isa(|isa| {
        for format in Format::ALL.into_iter().filter(|format| !format.rounds(isa)) {
            // The last has more columns than are unpacked at a time.
            for (n, blocks) in [(1, 1), (5, 2), (17, 3), (33, 5), (2, 72)] {
                let (raw, k) = (weights(format, n * blocks), blocks * format.block().0);
                let values = values(format, &raw);
                let what = format!("{format:?}");
                check_products(isa, &what, (&values, k), |x, y| multiply_codes(isa, format, &raw, x, y));
            }
        }
    });
}

#[test]
fn the_largest_sums_of_integers_are_exact() {
    each_isa(|isa| {
        for format in Format::ALL.into_iter().filter(|format| !format.rounds(isa)) {
            for fill in [0x00, 0x7f, 0x80, 0xff] {
                let mut block = vec![fill; format.block().1];
                for (at, scale) in scales_at(format).iter().zip([1.0, 0.5]) {
                    block[*at..at + 2].copy_from_slice(&f16::from_f32(scale).to_bits().to_le_bytes());
                }
                match format {
                    Format::Q8K => block[..4].copy_from_slice(&1f32.to_le_bytes()),
                    Format::Mxfp4 => block[0] = 127,
                    _ => {}
                }
                let (n, k) = (17, format.block().0);
                let sum: f64 = values(format, &block).iter().sum();
                for sign in [1.0, -1.0] {
                    let x = Activations::new(isa, &vec![127.0 * sign; 3 * k], k).unwrap();
                    let mut y = vec![f32::NAN; 3 * n];
                    multiply_codes(isa, format, &block.repeat(n), &x, MatMut::new(&mut y, 3, n, n).unwrap())
                        .unwrap();
                    let want = 127.0 * f64::from(sign) * sum;
                    let error = nmse(&wide(&y), &vec![want; 3 * n]);
                    assert!(error <= 1e-12, "{isa} {format:?} {fill:#x}: {} for {want}", y[0]);
                }
            }
        }
    });
}

/// The values of the codes of `raw`, in rows of `k`: products with an identity matrix.
fn decoded(isa: Isa, format: Format, raw: &[u8], k: usize) -> Vec<f64> {
    let n = raw.len() / (k / format.block().0 * format.block().1);
    let identity: Vec<f32> = (0..k * k).map(|i| f32::from(i / k == i % k)).collect();
    let x = Activations::new(isa, &identity, k).unwrap();
    let mut y = vec![f32::NAN; k * n];
    multiply_codes(isa, format, raw, &x, MatMut::new(&mut y, k, n, n).unwrap()).unwrap();
    (0..n * k).map(|i| f64::from(y[i % k * n + i / k])).collect()
}

#[test]
fn codes_that_are_rounded_are_within_half_a_step() {
    each_isa(|isa| {
        for format in Format::ALL.into_iter().filter(|format| format.rounds(isa)) {
            let (n, k) = (40, 256);
            let raw = weights(format, n);
            let (want, got) = (values(format, &raw), decoded(isa, format, &raw, k));
            for (b, (want, got)) in want.chunks(32).zip(got.chunks(32)).enumerate() {
                // A step is the largest weight that the scales allow over 127.
                let block = &raw[b / 8 * 210..][..210];
                let scale = f16::from_bits(u16::from_le_bytes([block[208], block[209]])).to_f64().abs();
                let largest =
                    [0, 1].map(|h| i32::from(block[192 + b % 8 * 2 + h] as i8).abs()).into_iter().max();
                let step = scale * f64::from(largest.unwrap()) * 32.0 / 127.0;
                for (want, got) in want.iter().zip(got) {
                    assert!(
                        (want - got).abs() <= 0.57 * step + 1e-12,
                        "{isa} {format:?}: {got} for {want}, step {step}"
                    );
                }
            }
            let error = nmse(&got, &want);
            assert!(error > 0.0 && error < 1e-4, "{isa} {format:?} {error:e}");
        }
    });
}

#[test]
fn all_instruction_sets_unpack_the_same_codes() {
    for format in Format::ALL {
        let (raw, k) = (weights(format, 19), format.block().0);
        let want = decoded(Isa::portable(), format, &raw, k);
        each_isa(|isa| {
            // Where nothing is rounded, codes are those of the file.
            let exact = format.rounds(Isa::portable()) && !format.rounds(isa);
            let exact = exact.then(|| values(format, &raw));
            let error = nmse(&decoded(isa, format, &raw, k), exact.as_ref().unwrap_or(&want));
            assert!(error <= 1e-13, "{isa} {format:?} {error:e}");
        });
    }
}

#[test]
fn wrong_lengths_are_errors() {
    let x = Activations::new(Isa::best(), &[0f32; 64], 64).unwrap();
    let mut y = [0f32; 2];
    let mut error_for = |format, raw: &[u8], m| {
        let y = MatMut::new(&mut y[..2], m, 2 / m, 2 / m).unwrap();
        multiply_codes(Isa::best(), format, raw, &x, y).unwrap_err().to_string()
    };
    assert_eq!(error_for(Format::Q5_0, &[0; 87], 1), "weight bytes has 87 elements, wanted 88");
    assert_eq!(error_for(Format::Q6K, &[0; 420], 1), "k has 64 elements, wanted a multiple of 256");
    assert_eq!(error_for(Format::Q5_0, &[0; 44], 2), "rows of y has 2 elements, wanted 1");
    let none = Activations::new(Isa::best(), &[0f32; 0], 0).unwrap();
    multiply_codes(Isa::best(), Format::Q4K, &[], &none, MatMut::new(&mut [], 0, 0, 0).unwrap()).unwrap();
}

#[test]
fn what_is_not_finite_reaches_the_result() {
    each_isa(|isa| {
        for format in Format::ALL {
            let k = format.block().0;
            let raw = weights(format, 16);
            // The row is in a panel of eight, and in the row after it.
            let infinite = [1, 8];
            let mut x = vec![1f32; 9 * k];
            infinite.iter().for_each(|i| x[i * k + 20] = f32::INFINITY);
            let x = Activations::new(isa, &x, k).unwrap();
            let mut y = vec![0f32; 9 * 16];
            multiply_codes(isa, format, &raw, &x, MatMut::new(&mut y, 9, 16, 16).unwrap()).unwrap();
            for (i, y) in y.chunks(16).enumerate() {
                let nan = infinite.contains(&i);
                assert!(
                    y.iter().all(|y| y.is_nan() == nan && (nan || y.is_finite())),
                    "{isa} {format:?} row {i}"
                );
            }
        }
    });
}

/// Rows of activations, of a length that is not a multiple of the columns that are unpacked at a time. Most have outliers.
fn many_rows(m: usize, k: usize) -> Vec<f32> {
    let mut random = Random::new(7);
    let mut x: Vec<f32> = (0..m * k).map(|_| random.next()).collect();
    for (i, x) in x.chunks_mut(k).enumerate() {
        (0..i % 4).for_each(|o| x[(i * 31 + o * 1000) % k] = 9.0 + o as f32);
    }
    x
}

#[test]
fn a_row_has_the_same_bits_whatever_the_others_are() {
    each_isa(|isa| {
        for format in [Format::Q8_0, Format::Mxfp4, Format::Q4K, Format::Q2K] {
            // More rows of both than are processed together, with remainders of every size.
            let (m, n, blocks) = (79, 150, 2304 / format.block().0);
            let (raw, k) = (weights(format, n * blocks), 2304);
            let x = many_rows(m, k);
            let product = |x: &[f32], m: usize| {
                let mut y = vec![f32::NAN; m * n];
                let x = Activations::new(isa, x, k).unwrap();
                multiply_codes(isa, format, &raw, &x, MatMut::new(&mut y, m, n, n).unwrap()).unwrap();
                y
            };
            let all = product(&x, m);
            for i in [0, 7, 71, 75, 77, 78] {
                assert_eq!(product(&x[i * k..][..k], 1), all[i * n..][..n], "{isa} {format:?}, row {i}");
            }
        }
    });
}

#[test]
fn codes_that_replace_tiles_give_the_same_bits() {
    each_isa(|isa| {
        for (format, codes) in [(TileFormat::Q8_0, Format::Q8_0), (TileFormat::Q4_0, Format::Q4_0)] {
            // Enough rows for every kernel.
            let (m, n, k) = (133, 150, 2304);
            let (raw, x) = (weights(codes, n * k / 32), many_rows(m, k));
            let of = |f: &dyn Fn(&Activations, MatMut<'_, f32>)| {
                let mut y = vec![f32::NAN; m * n];
                f(&Activations::new(isa, &x, k).unwrap(), MatMut::new(&mut y, m, n, n).unwrap());
                y
            };
            let tiles = Tiles::new(format, &raw, n, k).unwrap();
            let all = of(&|x, y| multiply_tiles(isa, &tiles, 0..n.div_ceil(TILE_ROWS), x, y).unwrap());
            // Fewer rows, and a range of tiles.
            let mut few = vec![f32::NAN; 9 * 22];
            let rows = Activations::new(isa, &x[..9 * k], k).unwrap();
            multiply_tiles(isa, &tiles, 8..10, &rows, MatMut::new(&mut few, 9, 22, 22).unwrap()).unwrap();
            let mut part = vec![f32::NAN; m * 22];
            let whole = Activations::new(isa, &x, k).unwrap();
            multiply_tiles(isa, &tiles, 8..10, &whole, MatMut::new(&mut part, m, 22, 22).unwrap()).unwrap();
            for (i, all) in all.chunks(n).enumerate() {
                assert_eq!(part[i * 22..][..22], all[128..], "{isa} {format:?}, row {i}");
                if i < 9 {
                    assert_eq!(few[i * 22..][..22], all[128..], "{isa} {format:?}, row {i}");
                }
            }
            // The kernel that is chosen for this many rows, and for each row by itself.
            let weight =
                Weight { raw: &raw, format: Some(codes), decode: &|_, _| unreachable!("it has kernels") };
            let product = |sums| of(&|x, y| multiply(isa, weight, x, sums, y).unwrap());
            assert!(product(Sums::Any) == all, "{isa} {format:?}");
            let in_place = of(&|x, y| multiply_rows_by_row(isa, format, &raw, x, y).unwrap());
            assert!(product(Sums::ByRow) == in_place, "{isa} {format:?}");
        }
    });
}
