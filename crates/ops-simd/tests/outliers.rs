//! Outliers, which are not rounded.

use crate::common::{Random, each_isa, nmse};
use half::f16;
use ops_simd::Isa;
use ops_simd::gemm::MatMut;
use ops_simd::quant::{
    Activations, BLOCK, Format, Outliers, Sums, TileFormat, Tiles, multiply_codes, multiply_rows,
    multiply_tiles, outliers_for,
};

const K: usize = 1024;
const N: usize = 40;

/// Rows of q8_0 blocks, and their values.
fn weights() -> (Vec<u8>, Vec<f64>) {
    let (mut random, mut raw, mut values) = (Random::new(1), Vec::new(), Vec::new());
    for _ in 0..N * K / BLOCK {
        let scale = f16::from_f32(0.01 + 0.005 * random.next());
        raw.extend(scale.to_le_bytes());
        for _ in 0..BLOCK {
            let code = random.bits() as i8;
            raw.push(code as u8);
            values.push(scale.to_f64() * f64::from(code));
        }
    }
    (raw, values)
}

/// Rows of numbers of which one block in three has an outlier.
fn numbers(rows: usize) -> Vec<f32> {
    let mut random = Random::new(2);
    let mut x: Vec<f32> = (0..rows * K).map(|_| random.next()).collect();
    x.chunks_mut(3 * BLOCK).for_each(|x| x[(random.bits() % 32) as usize] = 40.0 * random.next().signum());
    x
}

fn quantized(isa: Isa, x: &[f32], outliers: Outliers) -> Activations {
    let mut activations = Activations::default();
    let parts = activations.parts(x.len() / K, K, 8).unwrap();
    parts.into_iter().for_each(|part| part.quantize(isa, x, outliers).unwrap());
    activations
}

/// The NMSE of the products.
fn error(x: &[f32], weights: &[f64], multiply: impl FnOnce(MatMut<'_, f32>)) -> f64 {
    let dot = |x: &[f32], w: &[f64]| x.iter().zip(w).map(|(x, w)| f64::from(*x) * w).sum::<f64>();
    let want: Vec<f64> = x.chunks(K).flat_map(|x| weights.chunks(K).map(move |w| dot(x, w))).collect();
    let mut y = vec![f32::NAN; want.len()];
    multiply(MatMut::new(&mut y, want.len() / N, N, N).unwrap());
    nmse(&crate::common::wide(&y), &want)
}

#[test]
fn their_blocks_are_rounded_as_finely_as_others() {
    let (raw, values) = weights();
    let tiles = Tiles::new(TileFormat::Q8_0, &raw, N, K).unwrap();
    each_isa(|isa| {
        for rows in [1, 2, 5, 21, 90] {
            let x = numbers(rows);
            let products = |outliers| {
                let codes = quantized(isa, &x, outliers);
                [
                    error(&x, &values, |y| multiply_codes(isa, Format::Q8_0, &raw, &codes, y).unwrap()),
                    error(&x, &values, |y| multiply_rows(isa, TileFormat::Q8_0, &raw, &codes, y).unwrap()),
                    error(&x, &values, |y| multiply_tiles(isa, &tiles, 0..3, &codes, y).unwrap()),
                ]
            };
            let rounded = products(Outliers::Rounded);
            for (rounded, aside) in rounded.into_iter().zip(products(Outliers::SetAside)) {
                assert!(aside < rounded / 100.0, "{isa}, {rows} rows: {aside:e}, rounded {rounded:e}");
            }
        }
    });
}

#[test]
fn rows_of_any_magnitude_have_them() {
    let (raw, values) = weights();
    each_isa(|isa| {
        for power in [-40, -13, 0, 30, 50] {
            let scale = 2f32.powi(power);
            let x: Vec<f32> = numbers(3).iter().map(|x| x * scale).collect();
            let codes = quantized(isa, &x, Outliers::SetAside);
            let error = error(&x, &values, |y| multiply_codes(isa, Format::Q8_0, &raw, &codes, y).unwrap());
            assert!(error < 1e-6, "{isa} 2^{power}: {error:e}");
        }
        // Squares that underflow or overflow say nothing: nothing is set aside.
        for power in [-140, -80, 100, 120] {
            let x: Vec<f32> = numbers(1).iter().map(|x| x * 2f32.powi(power)).collect();
            let product = |outliers| {
                let (codes, mut y) = (quantized(isa, &x, outliers), vec![f32::NAN; N]);
                multiply_codes(isa, Format::Q8_0, &raw, &codes, MatMut::new(&mut y, 1, N, N).unwrap())
                    .unwrap();
                y
            };
            assert_eq!(product(Outliers::SetAside), product(Outliers::Rounded), "{isa} 2^{power}");
        }
    });
}

#[test]
fn a_row_with_what_is_not_finite_has_none() {
    let (raw, _) = weights();
    each_isa(|isa| {
        for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = numbers(9);
            x[3 * K + 500] = special;
            let codes = quantized(isa, &x, Outliers::SetAside);
            let mut y = vec![0.0; 9 * N];
            multiply_codes(isa, Format::Q8_0, &raw, &codes, MatMut::new(&mut y, 9, N, N).unwrap()).unwrap();
            for (i, y) in y.chunks(N).enumerate() {
                assert!(y.iter().all(|y| y.is_nan() == (i == 3)), "{isa} {special} row {i}");
            }
        }
    });
}

#[test]
fn they_are_rounded_for_two_rows_and_where_the_weight_is_read_in_place() {
    let isa = Isa::best();
    let set_aside = |format, rows, sums| outliers_for(isa, format, rows, sums) == Outliers::SetAside;
    for format in Format::ALL {
        let last_in_place = if format.tiled().is_some() { 16 } else { 2 };
        for rows in 1..20 {
            let want = rows > last_in_place;
            assert_eq!(set_aside(Some(format), rows, Sums::Any), want, "{format:?} {rows}");
        }
        // The same for any number of rows.
        let by_row = [1, 3, 100].map(|rows| set_aside(Some(format), rows, Sums::ByRow));
        assert!(by_row.iter().all(|aside| *aside == by_row[0]), "{format:?}");
    }
    assert!(set_aside(None, 17, Sums::Any));
}
