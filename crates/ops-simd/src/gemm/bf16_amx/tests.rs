//! Products by the matrix unit, if there is one, and by a plain Rust replacement, compared with sums in f64.

use super::*;
use crate::isa::Level;

/// Computes in plain Rust what the instructions compute: even and odd elements of pairs are summed
/// separately, and numbers below 2⁻¹²⁶ count as zero.
struct Plain;

fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
}

impl Unit for Plain {
    fn multiply(&self, a: &[StepOfA], b: &[StepOfB], sums: &mut Sums, add: bool) {
        for (t, tile) in sums.as_flattened_mut().iter_mut().enumerate() {
            let (half, r, columns) = (t / TILE / 2, t % TILE, t / TILE % 2 * TILE);
            for (n, sum) in tile.iter_mut().enumerate() {
                *sum = if add { *sum } else { 0.0 };
                for (a, b) in a.iter().zip(b) {
                    let mut parts = [0f32; 2];
                    for (a, b) in a[half][r].iter().zip(b) {
                        let b = b[columns + n];
                        for (i, part) in parts.iter_mut().enumerate() {
                            let number = |pair: u32| flushed(f32::from_bits(pair >> (16 * i) << 16));
                            *part = flushed(number(*a).mul_add(number(b), *part));
                        }
                    }
                    *sum = flushed(*sum + flushed(parts[0] + parts[1]));
                }
            }
        }
    }
}

/// Pseudo-random numbers between -1 and 1.
fn numbers(n: usize, seed: u32) -> Vec<bf16> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bf16::from_f32((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    (0..n).map(next).collect()
}

/// Both products, with B as it is and with B packed. C has gaps between its rows, which must not be written.
fn products<U: Unit>(unit: &U, isa: Isa, a: &Mat<'_, bf16>, b: &Mat<'_, bf16>) -> [Vec<f32>; 2] {
    let (m, n) = (a.rows(), b.cols());
    let run = |f: &dyn Fn(&mut MatMut<'_, f32>)| {
        let mut c = vec![7f32; m * (n + 1)];
        f(&mut MatMut::new(&mut c, m, n, n + 1).unwrap());
        assert!(c.chunks(n + 1).all(|row| row[n] == 7.0));
        c.chunks(n + 1).flat_map(|row| row[..n].to_vec()).collect()
    };
    let packed = PackedB::new(isa, *b);
    let all = packed.all_columns();
    [
        run(&|c| {
            // SAFETY: the caller detected the features.
            multiply(unit, a, |columns, first, out| unsafe { columns_of(b, columns, first, out) }, c);
        }),
        run(&|c| {
            // SAFETY: the caller detected the features.
            let pack = |part, first, out: &mut [StepOfB]| unsafe {
                columns_of_packed(&packed, all, part, first, out);
            };
            multiply(unit, a, pack, c);
        }),
    ]
}

fn check(isa: Isa, a: Mat<'_, bf16>, b: Mat<'_, bf16>, what: &str) {
    let wide = |x: Option<bf16>| x.map_or(0.0, bf16::to_f64);
    let dot = |i: usize, j: usize| (0..a.cols()).map(|p| wide(a.get(i, p)) * wide(b.get(p, j))).sum::<f64>();
    let want: Vec<f64> =
        (0..a.rows()).flat_map(|i| (0..b.cols()).map(move |j| (i, j))).map(|(i, j)| dot(i, j)).collect();
    let scale: f64 = want.iter().map(|w| w * w).sum();
    let mut all = products(&Plain, isa, &a, &b).to_vec();
    if let Some(unit) = Bf16Tiles::configure(isa) {
        all.extend(products(&unit, isa, &a, &b));
    }
    for (way, got) in all.iter().enumerate() {
        let error: f64 = got.iter().zip(&want).map(|(g, w)| (f64::from(*g) - w).powi(2)).sum();
        assert!(error <= 1e-11 * scale, "{what}, way {way}: {}", error / scale);
    }
}

#[test]
fn products_are_those_of_f64() {
    let Some(isa) = Isa::available().into_iter().find(|isa| isa.level() == Level::Avx512Vnni) else { return };
    if !is_x86_feature_detected!("avx512bf16") {
        return;
    }
    // Partial tiles in every direction, an odd depth, and more rows, columns and depth than one block holds.
    for [m, k, n] in [[9, 32, 32], [16, 64, 33], [33, 33, 70], [40, 801, 47], [70, 385, 300], [520, 40, 36]] {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        for a in [Mat::row_major(&a, m, k).unwrap(), Mat::new(&a, m, k, 1, m).unwrap()] {
            for b in [Mat::row_major(&b, k, n).unwrap(), Mat::new(&b, k, n, 1, k).unwrap()] {
                check(isa, a, b, &format!("{m} {k} {n}"));
            }
        }
    }
}
