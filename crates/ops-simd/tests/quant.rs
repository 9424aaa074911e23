//! Quantized products compared with exact loops.

use crate::common::{Random, each_isa, nmse, on_a_line, wide};
use half::f16;
use ops_simd::Isa;
use ops_simd::gemm::MatMut;
use ops_simd::quant::{
    Activations, BLOCK, Format, Outliers, TILE_ROWS, TileFormat, Tiles, multiply_codes, multiply_rows,
    multiply_tiles, reference, requantize,
};

/// Rows of blocks with random weights, including the extremes.
fn weights(format: TileFormat, n: usize, k: usize) -> Vec<u8> {
    let mut random = Random::new((n * 17 + k) as u64);
    let mut raw = Vec::new();
    for _ in 0..n * k / BLOCK {
        raw.extend(f16::from_f32(random.next() * 0.1).to_bits().to_le_bytes());
        let extreme = random.bits().is_multiple_of(4);
        for _ in 0..format.block_bytes() - 2 {
            raw.push(if extreme {
                [0x80, 0x7f, 0x00, 0xff][(random.bits() % 4) as usize]
            } else {
                random.bits() as u8
            });
        }
    }
    raw
}

fn activations(isa: Isa, m: usize, k: usize) -> Activations {
    let mut x: Vec<f32> = Random::new(m as u64 + 5).vec(m * k);
    // Whole blocks at the extremes give the largest sums of products.
    for (i, x) in x.iter_mut().take(2 * BLOCK).enumerate() {
        *x = if i % 2 == 0 || i < BLOCK { 3.0 } else { -3.0 };
    }
    Activations::new(isa, &x, k).unwrap()
}

#[test]
fn gathered_rows_are_those_quantized_alone() {
    let (k, n) = (96, 17);
    let raw = weights(TileFormat::Q8_0, n, k);
    let mut x: Vec<f32> = Random::new(3).vec(21 * k);
    // Outliers.
    [0, 7, 8, 11, 12, 19, 20].into_iter().for_each(|row| x[row * k + 3 * row] = 60.0);
    each_isa(|isa| {
        let all = Activations::new(isa, &x, k).unwrap();
        let mut gathered = activations(isa, 9, 32);
        for picked in [&[20][..], &[0, 7, 8, 20, 20, 3, 19, 16, 17, 1, 2], &[5, 4, 12], &[]] {
            let rows: Vec<f32> = picked.iter().flat_map(|row| &x[row * k..][..k]).copied().collect();
            let alone = Activations::new(isa, &rows, k).unwrap();
            gathered.gather(&all, picked).unwrap();
            let product = |x: &Activations| {
                let mut y = vec![f32::NAN; picked.len() * n];
                let c = MatMut::new(&mut y, picked.len(), n, n).unwrap();
                multiply_rows(isa, TileFormat::Q8_0, &raw, x, c).unwrap();
                y
            };
            assert_eq!((gathered.rows(), gathered.k()), (picked.len(), k));
            assert_eq!(product(&gathered), product(&alone), "{isa} {picked:?}");
        }
        assert!(gathered.gather(&all, &[0, 21]).is_err());
    });
}

#[test]
fn products_match_the_exact_loops() {
    each_isa(|isa| {
        for format in [TileFormat::Q8_0, TileFormat::Q4_0] {
            for (n, k) in [(1, 32), (16, 64), (17, 96), (40, 256), (33, 1024)] {
                let raw = weights(format, n, k);
                let tiles = Tiles::new(format, &raw, n, k).unwrap();
                for m in [1, 2, 3, 4, 7, 8, 9, 16, 21] {
                    let x = activations(isa, m, k);
                    let want = reference::multiply(format, &raw, n, &x).unwrap();
                    let mut y = vec![f32::NAN; m * n];
                    let c = MatMut::new(&mut y, m, n, n).unwrap();
                    multiply_tiles(isa, &tiles, 0..tiles.count(), &x, c).unwrap();
                    let error = nmse(&wide(&y), &want);
                    assert!(error <= 1e-12, "{isa} {format:?} {m} {n} {k}: {error:e}");
                    y.fill(f32::NAN);
                    multiply_rows(isa, format, &raw, &x, MatMut::new(&mut y, m, n, n).unwrap()).unwrap();
                    let error = nmse(&wide(&y), &want);
                    assert!(error <= 1e-12, "in place, {isa} {format:?} {m} {n} {k}: {error:e}");
                }
            }
        }
    });
}

#[test]
fn sums_of_integers_are_exact() {
    // Scales of one, so that the result is the integer sum.
    each_isa(|isa| {
        for (format, byte, weight) in
            [(TileFormat::Q8_0, 0x80, -128i32), (TileFormat::Q8_0, 0x7f, 127), (TileFormat::Q4_0, 0xff, 7)]
        {
            let (n, k) = (TILE_ROWS, 64);
            let mut block = f16::ONE.to_bits().to_le_bytes().to_vec();
            block.resize(format.block_bytes(), byte);
            let raw = block.repeat(n * k / BLOCK);
            let tiles = Tiles::new(format, &raw, n, k).unwrap();
            for sign in [1.0f32, -1.0] {
                let x = Activations::new(isa, &vec![127.0 * sign; k], k).unwrap();
                let mut y = vec![0f32; n];
                multiply_tiles(isa, &tiles, 0..1, &x, MatMut::new(&mut y, 1, n, n).unwrap()).unwrap();
                let want = (weight * 127 * k as i32) as f32 * sign;
                assert!(y.iter().all(|y| *y == want), "{isa} {format:?} {byte:#x} {y:?} {want}");
                multiply_rows(isa, format, &raw, &x, MatMut::new(&mut y, 1, n, n).unwrap()).unwrap();
                assert!(y.iter().all(|y| *y == want), "in place, {isa} {format:?} {byte:#x} {y:?} {want}");
            }
        }
    });
}

#[test]
fn activations_come_close_to_the_numbers() {
    each_isa(|isa| {
        let k = 128;
        let x: Vec<f16> = Random::new(11).vec(3 * k);
        // An identity matrix in q8_0 returns the activations.
        let mut raw = Vec::new();
        for i in 0..k {
            for b in 0..k / BLOCK {
                raw.extend(f16::ONE.to_bits().to_le_bytes());
                raw.extend((0..BLOCK).map(|j| u8::from(b * BLOCK + j == i)));
            }
        }
        let tiles = Tiles::new(TileFormat::Q8_0, &raw, k, k).unwrap();
        let activations = Activations::new(isa, &x, k).unwrap();
        let mut y = vec![0f32; 3 * k];
        multiply_tiles(isa, &tiles, 0..tiles.count(), &activations, MatMut::new(&mut y, 3, k, k).unwrap())
            .unwrap();
        for (x, y) in x.chunks(BLOCK).zip(y.chunks(BLOCK)) {
            let largest = x.iter().fold(0f32, |m, x| m.max(x.to_f32().abs()));
            for (x, y) in x.iter().zip(y) {
                assert!((x.to_f32() - y).abs() <= largest / 127.0 * 0.501, "{isa} {x} {y}");
            }
        }
    });
}

#[test]
fn what_is_not_finite_reaches_the_result() {
    each_isa(|isa| {
        let raw = weights(TileFormat::Q4_0, 16, 64);
        let tiles = Tiles::new(TileFormat::Q4_0, &raw, 16, 64).unwrap();
        for special in [f32::NAN, f32::INFINITY] {
            let mut x = vec![1f32; 64];
            x[40] = special;
            let x = Activations::new(isa, &x, 64).unwrap();
            let mut y = vec![0f32; 16];
            multiply_tiles(isa, &tiles, 0..1, &x, MatMut::new(&mut y, 1, 16, 16).unwrap()).unwrap();
            assert!(y.iter().all(|y| y.is_nan()), "{isa}");
            y.fill(0.0);
            multiply_rows(isa, TileFormat::Q4_0, &raw, &x, MatMut::new(&mut y, 1, 16, 16).unwrap()).unwrap();
            assert!(y.iter().all(|y| y.is_nan()), "in place, {isa}");
        }
        // Zeros, and numbers too small to scale.
        for tiny in [0.0, 1e-44, -1e-39] {
            let x = Activations::new(isa, &[tiny; 64], 64).unwrap();
            let mut y = vec![1f32; 16];
            multiply_tiles(isa, &tiles, 0..1, &x, MatMut::new(&mut y, 1, 16, 16).unwrap()).unwrap();
            assert!(y.iter().all(|y| y.abs() <= 1e-37), "{isa} {y:?}");
        }
    });
}

#[test]
fn rows_quantized_in_parts_are_those_quantized_together() {
    let (isa, n, k) = (Isa::best(), 16, 96);
    // A format with minima, whose products read all that belongs to a row.
    let raw: Vec<u8> = weights(TileFormat::Q4_0, n, k)
        .chunks(18)
        .flat_map(|b| [&b[..2], &b[..2], &b[2..]].concat())
        .collect();
    for m in [1, 7, 8, 15, 23, 40] {
        let mut random = Random::new(m as u64);
        let mut numbers: Vec<f32> = (0..m * k).map(|_| random.next()).collect();
        // Outliers in some rows.
        (0..m).step_by(3).for_each(|row| numbers[row * k + row] = 30.0);
        let product = |x: &Activations| {
            let mut y = vec![0f32; m * n];
            multiply_codes(isa, Format::Q4_1, &raw, x, MatMut::new(&mut y, m, n, n).unwrap()).unwrap();
            y
        };
        let whole = product(&Activations::new(isa, &numbers, k).unwrap());
        for each in [0, 1, 8, 9, 100, usize::MAX] {
            let mut x = Activations::default();
            let parts = x.parts(m, k, each).unwrap();
            assert_eq!(parts.len(), m.div_ceil(each.clamp(1, 1000).next_multiple_of(8)));
            // The order does not matter.
            parts
                .into_iter()
                .rev()
                .for_each(|part| part.quantize(isa, &numbers, Outliers::SetAside).unwrap());
            assert_eq!(product(&x), whole, "{m} rows in parts of {each}");
        }
        let mut x = Activations::default();
        let part = x.parts(m, k, m).unwrap().pop().unwrap();
        let error = part.quantize(isa, &numbers[1..], Outliers::SetAside).unwrap_err();
        assert_eq!(error.to_string(), format!("x has {} elements, wanted {}", m * k - 1, m * k));
    }
    let mut x = Activations::default();
    assert!(x.parts(3, 33, 1).is_err() && x.parts(3, 0, 1).unwrap().is_empty());
}

#[test]
fn ranges_of_tiles_make_the_whole() {
    let (isa, n, k, m) = (Isa::best(), 50, 96, 5);
    let tiles = Tiles::new(TileFormat::Q8_0, &weights(TileFormat::Q8_0, n, k), n, k).unwrap();
    let x = activations(isa, m, k);
    let (mut whole, mut parts) = (vec![0f32; m * n], vec![0f32; m * n]);
    multiply_tiles(isa, &tiles, 0..4, &x, MatMut::new(&mut whole, m, n, n).unwrap()).unwrap();
    let (left, right) = MatMut::new(&mut parts, m, n, n).unwrap().split_at_col(32);
    multiply_tiles(isa, &tiles, 0..2, &x, left).unwrap();
    multiply_tiles(isa, &tiles, 2..4, &x, right).unwrap();
    assert_eq!(whole, parts);
    assert_eq!(tiles.bytes(), 64 * 96 / 32 * 34 + 4 * 32, "a tile is rounded up to a line");
}

#[test]
fn tiles_are_repacked_in_place() {
    let (isa, k) = (Isa::best(), 64);
    let mut tiles = Tiles::new(TileFormat::Q8_0, &weights(TileFormat::Q8_0, 40, k), 40, k).unwrap();
    // Fewer rows than before, in another format, with a partial last tile.
    let (n, raw) = (17, weights(TileFormat::Q4_0, 17, k));
    tiles.repack(TileFormat::Q4_0, &raw, n, k).unwrap();
    let x = activations(isa, 3, k);
    let mut y = vec![0f32; 3 * n];
    multiply_tiles(isa, &tiles, 0..tiles.count(), &x, MatMut::new(&mut y, 3, n, n).unwrap()).unwrap();
    let want = reference::multiply(TileFormat::Q4_0, &raw, n, &x).unwrap();
    assert!(nmse(&wide(&y), &want) <= 1e-12);
}

#[test]
fn tiles_in_borrowed_memory_unpack_to_the_original() {
    for format in [TileFormat::Q8_0, TileFormat::Q4_0] {
        for (n, k) in [(1, 32), (16, 64), (17, 96), (40, 320)] {
            let raw = weights(format, n, k);
            let mut memory = Vec::new();
            let memory = on_a_line(&mut memory, Tiles::size(format, n, k) + 1);
            assert!(
                Tiles::pack_into(format, &raw, n, k, &mut memory[1..]).is_err(),
                "not aligned to a cache line"
            );
            Tiles::pack_into(format, &raw, n, k, memory).unwrap();
            let tiles = Tiles::from_bytes(format, n, k, memory).unwrap();
            let mut back = vec![0; raw.len()];
            tiles.unpack(&mut back).unwrap();
            assert_eq!(back, raw, "{format:?} {n} x {k}");
            assert!(tiles.unpack(&mut back[1..]).is_err());
            assert!(Tiles::from_bytes(format, n + 16, k, memory).is_err(), "too few bytes");
            let (isa, x) = (Isa::best(), activations(Isa::best(), 3, k));
            let [mut y, mut want] = [vec![0f32; 3 * n], vec![0f32; 3 * n]];
            multiply_tiles(isa, &tiles, 0..tiles.count(), &x, MatMut::new(&mut y, 3, n, n).unwrap()).unwrap();
            let owned = Tiles::new(format, &raw, n, k).unwrap();
            multiply_tiles(isa, &owned, 0..owned.count(), &x, MatMut::new(&mut want, 3, n, n).unwrap())
                .unwrap();
            assert_eq!(y, want);
        }
    }
}

#[test]
fn wrong_lengths_are_errors() {
    let x = Activations::new(Isa::best(), &[0f32; 32], 32).unwrap();
    let mut y = [0f32; 2];
    let mut error_for = |raw: &[u8]| {
        multiply_rows(Isa::best(), TileFormat::Q4_0, raw, &x, MatMut::new(&mut y, 1, 2, 2).unwrap())
            .unwrap_err()
    };
    assert_eq!(error_for(&[0; 35]).to_string(), "weight bytes has 35 elements, wanted 36");
    let error = Tiles::new(TileFormat::Q8_0, &[0; 34], 1, 33).unwrap_err();
    assert_eq!(error.to_string(), "k has 33 elements, wanted a multiple of 32");
    let error = Tiles::new(TileFormat::Q4_0, &[0; 17], 1, 32).unwrap_err();
    assert_eq!(error.to_string(), "weight bytes has 17 elements, wanted 18");
    assert!(Tiles::new(TileFormat::Q4_0, &[0; 18], usize::MAX, 64).is_err());
    assert!(Activations::new(Isa::best(), &[0f32; 40], 40).is_err());
    let tiles = Tiles::new(TileFormat::Q4_0, &[0; 18], 1, 32).unwrap();
    let x = Activations::new(Isa::best(), &[0f32; 32], 32).unwrap();
    let mut y = [0f32];
    let error =
        multiply_tiles(Isa::best(), &tiles, 0..2, &x, MatMut::new(&mut y, 1, 1, 1).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "tiles 0..2 is not a range of tiles within 1");
}

/// The values of a row of q8_0 blocks, and its factor.
fn requantized(isa: Isa, x: &[f32]) -> (Vec<f64>, f32) {
    let bytes = TileFormat::Q8_0.block_bytes();
    let mut blocks = vec![0xff; x.len() / BLOCK * bytes];
    let factor = requantize(isa, x, &mut blocks).unwrap();
    let mut values = Vec::new();
    for block in blocks.chunks_exact(bytes) {
        let scale = f64::from(f16::from_le_bytes([block[0], block[1]])) * f64::from(factor);
        values.extend(block[2..].iter().map(|q| scale * f64::from(*q as i8)));
    }
    (values, factor)
}

#[test]
fn rows_of_any_size_keep_their_digits_when_they_are_requantized() {
    each_isa(|isa| {
        let normal = Random::new(7).vec(1024);
        for power in [-126, -100, -20, -1, 0, 60, 126] {
            let x: Vec<f32> = normal.iter().map(|x| x * 2f32.powi(power)).collect();
            let (got, factor) = requantized(isa, &x);
            assert!(factor.is_normal() && factor > 0.0, "{isa} 2^{power}: factor {factor:e}");
            let error = nmse(&got, &wide(&x));
            assert!(error < 4e-5, "{isa} 2^{power}: {error:e}");
        }
        // Blocks of very different sizes.
        let x: Vec<f32> =
            normal.iter().enumerate().map(|(i, x)| x * 2f32.powi(-((i / BLOCK) as i32) / 2)).collect();
        let (got, _) = requantized(isa, &x);
        for (got, x) in got.chunks(BLOCK).zip(x.chunks(BLOCK)) {
            let error = nmse(got, &wide(x));
            assert!(error < 1e-4, "{isa}: {error:e}");
        }
        let (got, _) = requantized(isa, &[0.0; 64]);
        assert!(got.iter().all(|x| *x == 0.0), "{isa}");
    });
}

#[test]
fn numbers_that_are_not_finite_stay_in_their_block_when_they_are_requantized() {
    each_isa(|isa| {
        let mut x = Random::new(3).vec(96);
        (x[3], x[5], x[40]) = (f32::INFINITY, f32::NEG_INFINITY, f32::NAN);
        let (got, _) = requantized(isa, &x);
        assert_eq!((got[3], got[5]), (f64::INFINITY, f64::NEG_INFINITY), "{isa}");
        assert!(got[40].is_nan(), "{isa}");
        let error = nmse(&got[64..], &wide(&x[64..]));
        assert!(error < 4e-5, "{isa}: {error:e}");
        let mut short = [0; TileFormat::Q8_0.block_bytes()];
        assert!(requantize(isa, &x, &mut short).is_err() && requantize(isa, &x[..33], &mut short).is_err());
    });
}
