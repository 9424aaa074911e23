//! Products with codes that stand for levels, compared with exact loops over the values defined by the
//! format.

use crate::common::{Random, check_products, each_isa};
use half::f16;
use ops_simd::Isa;
use ops_simd::gemm::MatMut;
use ops_simd::quant::{Activations, LookupFormat, multiply_lookup_rows};

/// Each format with the weights and the bytes of a block.
const FORMATS: [(LookupFormat, usize, usize); 2] =
    [(LookupFormat::Iq4Nl, 32, 18), (LookupFormat::Mxfp4, 32, 17)];

/// Random blocks with small scales.
fn weights(format: LookupFormat, blocks: usize, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(blocks as u64 + 3);
    let mut raw = Vec::new();
    for _ in 0..blocks {
        let mut block: Vec<u8> = (0..bytes).map(|_| random.bits() as u8).collect();
        if format == LookupFormat::Mxfp4 {
            block[0] = 120 + block[0] % 12;
        } else {
            block[..2].copy_from_slice(&f16::from_f32(random.next() * 0.1).to_le_bytes());
        }
        raw.extend(block);
    }
    raw
}

/// Value `i` of a block as the format defines it.
fn value(format: LookupFormat, block: &[u8], i: usize) -> f64 {
    let code = |at: usize, i: usize| usize::from(block[at + i % 16] >> (i / 16 * 4) & 15);
    let half = || f16::from_le_bytes([block[0], block[1]]).to_f64();
    let level = |code: usize| {
        f64::from([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113][code])
    };
    match format {
        LookupFormat::Iq4Nl => half() * level(code(2, i)),
        LookupFormat::Mxfp4 => {
            let code = code(1, i);
            let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][code % 8];
            2f64.powi(i32::from(block[0]) - 127) * if code < 8 { size } else { -size }
        }
    }
}

#[test]
fn products_match_the_exact_loops() {
    each_isa(|isa| {
        for (format, len, bytes) in FORMATS {
            for (n, blocks) in [(1, 1), (5, 2), (17, 3), (3, 8), (2, 11)] {
                let (raw, k) = (weights(format, n * blocks, bytes), blocks * len);
                let of_block = |block: &[u8]| (0..len).map(|i| value(format, block, i)).collect::<Vec<_>>();
                let values: Vec<f64> = raw.chunks(bytes).flat_map(of_block).collect();
                let what = format!("{format:?}");
                check_products(isa, &what, (&values, k), |x, y| {
                    multiply_lookup_rows(isa, format, &raw, x, y)
                });
            }
        }
    });
}

#[test]
fn the_largest_levels_do_not_overflow() {
    each_isa(|isa| {
        // Code 0 of iq4_nl is −127.
        let mut block = [0; 18];
        block[..2].copy_from_slice(&f16::ONE.to_le_bytes());
        for sign in [1.0, -1.0] {
            let x = Activations::new(isa, &[127.0 * sign; 32], 32).unwrap();
            let mut y = [0f32];
            let c = MatMut::new(&mut y, 1, 1, 1).unwrap();
            multiply_lookup_rows(isa, LookupFormat::Iq4Nl, &block, &x, c).unwrap();
            assert_eq!(y[0], -127.0 * 127.0 * 32.0 * sign, "{isa}");
        }
    });
}

#[test]
fn exponents_of_subnormal_and_of_large_factors() {
    each_isa(|isa| {
        // Code 1 is a half.
        for (exponent, size) in [(0, 100), (1, 100), (2, 100), (3, 0), (127, 0), (240, -60)] {
            let mut block = [0x11; 17];
            block[0] = exponent;
            let x = Activations::new(isa, &[127.0 * 2f32.powi(size); 32], 32).unwrap();
            let mut y = [0f32; 3];
            let c = MatMut::new(&mut y, 1, 3, 3).unwrap();
            multiply_lookup_rows(isa, LookupFormat::Mxfp4, &[block; 3].concat(), &x, c).unwrap();
            let want = 127.0 * 16.0 * 2f64.powi(i32::from(exponent) - 127 + size);
            assert_eq!(y.map(f64::from), [want; 3], "{isa}, {exponent}");
        }
    });
}

#[test]
fn wrong_lengths_are_errors() {
    let isa = Isa::best();
    let mut y = [0f32; 2];
    let mut error_of = |format: LookupFormat, k: usize, bytes: usize| {
        let x = Activations::new(isa, &vec![0f32; k], k).unwrap();
        let y = MatMut::new(&mut y, 1, 2, 2).unwrap();
        multiply_lookup_rows(isa, format, &vec![0; bytes], &x, y).unwrap_err().to_string()
    };
    assert_eq!(error_of(LookupFormat::Mxfp4, 64, 67), "weight bytes has 67 elements, wanted 68");
    assert_eq!(error_of(LookupFormat::Iq4Nl, 32, 37), "weight bytes has 37 elements, wanted 36");
}
