//! Products with super-blocks, compared with exact loops over the values defined by the format.

use crate::common::{Random, check_products, each_isa, nmse, wide};
use half::f16;
use ops_simd::Isa;
use ops_simd::gemm::MatMut;
use ops_simd::quant::{Activations, SUPER_BLOCK, SuperFormat, multiply_super_rows};

const FORMATS: [SuperFormat; 4] = [SuperFormat::Q4K, SuperFormat::Q5K, SuperFormat::Q6K, SuperFormat::Iq4Xs];

/// Where a block has its f16 units.
fn units(format: SuperFormat) -> &'static [usize] {
    match format {
        SuperFormat::Q4K | SuperFormat::Q5K => &[0, 2],
        SuperFormat::Q6K => &[208],
        SuperFormat::Iq4Xs => &[0],
    }
}

/// Random blocks with small scales.
fn weights(format: SuperFormat, blocks: usize) -> Vec<u8> {
    let mut random = Random::new(blocks as u64 + 3);
    let mut raw = Vec::new();
    for _ in 0..blocks {
        let mut block: Vec<u8> = (0..format.block_bytes()).map(|_| random.bits() as u8).collect();
        for at in units(format) {
            block[*at..at + 2].copy_from_slice(&f16::from_f32(random.next() * 0.1).to_bits().to_le_bytes());
        }
        raw.extend(block);
    }
    raw
}

/// Value `i` of a block, step by step as the format defines it.
fn value(format: SuperFormat, block: &[u8], i: usize) -> f64 {
    let half = |at: usize| f16::from_bits(u16::from_le_bytes([block[at], block[at + 1]])).to_f64();
    if format == SuperFormat::Q6K {
        let (part, at) = (i / 128, i % 128);
        let low = block[part * 64 + at % 64] >> (at / 64 * 4) & 15;
        let high = block[128 + part * 32 + at % 32] >> (at / 32 * 2) & 3;
        return half(208) * f64::from(block[192 + i / 16] as i8) * (f64::from(low | high << 4) - 32.0);
    }
    if format == SuperFormat::Iq4Xs {
        let (group, at) = (i / 32, i % 32);
        let high = (u16::from_le_bytes([block[2], block[3]]) >> (2 * group) & 3) as u8;
        let scale = block[4 + group / 2] >> (group % 2 * 4) & 15 | high << 4;
        let code = block[8 + 16 * group + at % 16] >> (at / 16 * 4) & 15;
        let levels = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
        return half(0) * (f64::from(scale) - 32.0) * f64::from(levels[usize::from(code)]);
    }
    let (group, s) = (i / 32, &block[4..16]);
    let (scale, min) = match group {
        0..4 => (s[group] & 63, s[group + 4] & 63),
        _ => (s[group + 4] & 15 | s[group - 4] >> 6 << 4, s[group + 4] >> 4 | s[group] >> 6 << 4),
    };
    let codes = if format == SuperFormat::Q4K { 16 } else { 48 };
    let mut q = block[codes + group / 2 * 32 + i % 32] >> (group % 2 * 4) & 15;
    if format == SuperFormat::Q5K {
        q |= (block[16 + i % 32] >> group & 1) << 4;
    }
    half(0) * f64::from(scale) * f64::from(q) - half(2) * f64::from(min)
}

#[test]
fn products_match_the_exact_loops() {
    each_isa(|isa| {
        for format in FORMATS {
            // The last has more super-blocks than have their scales unpacked at a time.
            for (n, blocks) in [(1, 1), (5, 2), (17, 3), (3, 19)] {
                let (raw, k) = (weights(format, n * blocks), blocks * SUPER_BLOCK);
                let values: Vec<f64> = raw
                    .chunks(format.block_bytes())
                    .flat_map(|block| (0..SUPER_BLOCK).map(|i| value(format, block, i)))
                    .collect();
                let what = format!("{format:?}");
                check_products(isa, &what, (&values, k), |x, y| multiply_super_rows(isa, format, &raw, x, y));
            }
        }
    });
}

#[test]
fn the_largest_integers_do_not_overflow() {
    // All codes and scales at their largest, in scales of one.
    each_isa(|isa| {
        for format in FORMATS {
            let mut block = vec![0xff; format.block_bytes()];
            for at in units(format) {
                block[*at..at + 2].copy_from_slice(&f16::ONE.to_bits().to_le_bytes());
            }
            if format == SuperFormat::Q6K {
                block[192..208].fill(0x80);
            }
            let want: f64 = (0..SUPER_BLOCK).map(|i| value(format, &block, i) * 127.0).sum();
            for sign in [1.0, -1.0] {
                let x = Activations::new(isa, &[127.0 * sign; SUPER_BLOCK], SUPER_BLOCK).unwrap();
                let mut y = [0f32];
                multiply_super_rows(isa, format, &block, &x, MatMut::new(&mut y, 1, 1, 1).unwrap()).unwrap();
                let error = (f64::from(y[0]) - want * f64::from(sign)).abs();
                assert!(error <= want.abs() * 1e-6, "{isa} {format:?}: {} not {want}", y[0]);
            }
        }
    });
}

#[test]
fn offsets_of_codes_cancel_where_all_activations_have_one_sign() {
    // The terms that take the offsets off are then far larger than the products.
    each_isa(|isa| {
        for format in FORMATS {
            let (n, k) = (9, 5 * SUPER_BLOCK);
            let raw = weights(format, n * 5);
            let x: Vec<f32> = (0..k).map(|i| (127 - i % 32) as f32).collect();
            let want: Vec<f64> = raw
                .chunks(5 * format.block_bytes())
                .map(|row| {
                    let blocks = row.chunks(format.block_bytes());
                    let values = blocks.flat_map(|block| (0..SUPER_BLOCK).map(|i| value(format, block, i)));
                    values.zip(&x).map(|(w, x)| w * f64::from(*x)).sum()
                })
                .collect();
            let mut y = vec![f32::NAN; n];
            let x = Activations::new(isa, &x, k).unwrap();
            multiply_super_rows(isa, format, &raw, &x, MatMut::new(&mut y, 1, n, n).unwrap()).unwrap();
            let error = nmse(&wide(&y), &want);
            assert!(error <= 1e-10, "{isa} {format:?}: {error:e}");
        }
    });
}

#[test]
fn what_is_not_finite_reaches_the_result() {
    each_isa(|isa| {
        for format in FORMATS {
            let (raw, k) = (weights(format, 5), SUPER_BLOCK);
            let mut x = vec![1f32; 2 * k];
            x[k + 200] = f32::INFINITY;
            let x = Activations::new(isa, &x, k).unwrap();
            let mut y = vec![0f32; 10];
            multiply_super_rows(isa, format, &raw, &x, MatMut::new(&mut y, 2, 5, 5).unwrap()).unwrap();
            assert!(y[..5].iter().all(|y| y.is_finite()), "{isa} {format:?}");
            assert!(y[5..].iter().all(|y| y.is_nan()), "{isa} {format:?}");
        }
    });
}

#[test]
fn a_row_has_the_same_bits_whatever_the_others_are() {
    each_isa(|isa| {
        for format in FORMATS {
            let (n, k) = (6, 2 * SUPER_BLOCK);
            let (raw, mut random) = (weights(format, n * 2), Random::new(1));
            let x: Vec<f32> = random.vec(5 * k);
            let product = |x: &[f32]| {
                let x = Activations::new(isa, x, k).unwrap();
                let mut y = vec![f32::NAN; x.rows() * n];
                let c = MatMut::new(&mut y, x.rows(), n, n).unwrap();
                multiply_super_rows(isa, format, &raw, &x, c).unwrap();
                y
            };
            let alone: Vec<f32> = x.chunks(k).flat_map(product).collect();
            assert_eq!(product(&x), alone, "{isa} {format:?}");
        }
    });
}

#[test]
fn wrong_lengths_are_errors() {
    let isa = Isa::best();
    let x = Activations::new(isa, &[0f32; 256], 256).unwrap();
    let mut y = [0f32; 2];
    let mut error_of = |x: &Activations, raw: &[u8]| {
        let y = MatMut::new(&mut y, 1, 2, 2).unwrap();
        multiply_super_rows(isa, SuperFormat::Q4K, raw, x, y).unwrap_err().to_string()
    };
    assert_eq!(error_of(&x, &[0; 287]), "weight bytes has 287 elements, wanted 288");
    let short = Activations::new(isa, &[0f32; 64], 64).unwrap();
    assert_eq!(error_of(&short, &[0; 288]), "k has 64 elements, wanted a multiple of 256");
}
