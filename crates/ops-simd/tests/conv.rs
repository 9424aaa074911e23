//! Products with gathered matrices, and stencils, compared with plain loops in f64.

use crate::common::{Random, assert_close, each_isa, wide};
use ops_simd::gemm::{Gathered, Mat, MatMut, PackedA, gemm_gathered};
use ops_simd::{Error, Isa, Stencil, stencil};

/// Rows of A, then for B: offsets of its rows, runs, columns of a run, and elements between runs.
type Shape<'a> = (usize, &'a [usize], usize, usize, usize);

fn check_product(isa: Isa, (m, rows, count, width, step): Shape<'_>, start: bool) {
    let (k, n) = (rows.len(), count * width);
    let need = rows.iter().max().unwrap() + (count - 1) * step + width;
    let mut random = Random::new((m * 31 + k * 7 + n) as u64);
    let (a, data, starts): (Vec<f32>, Vec<f32>, Vec<f32>) =
        (random.vec(m * k), random.vec(need), random.vec(m));
    let packed = PackedA::new(isa, Mat::row_major(&a, m, k).unwrap());
    let b = Gathered::new(&data, rows, count, width, step).unwrap();
    assert!(Gathered::new(&data[1..], rows, count, width, step).is_err());
    // In two parts, with gaps between the rows of C, which must not be written.
    let (mid, stride) = (n / 3, n + 3);
    let mut c = vec![7f32; m * stride];
    for columns in [0..mid, mid..n] {
        let part = MatMut::new(&mut c, m, n, stride).unwrap().split_at_col(columns.end).0;
        let part = part.split_at_col(columns.start).1;
        gemm_gathered(&packed, b, columns, start.then_some(&starts[..]), part).unwrap();
    }
    let (a, data) = (wide(&a), wide(&data));
    let element = |i: usize, j: usize| {
        let terms =
            rows.iter().enumerate().map(|(p, row)| a[i * k + p] * data[row + j / width * step + j % width]);
        terms.sum::<f64>() + if start { f64::from(starts[i]) } else { 0.0 }
    };
    let want: Vec<f64> = (0..m * n).map(|at| element(at / n, at % n)).collect();
    let got: Vec<f32> = (0..m).flat_map(|r| c[r * stride..][..n].to_vec()).collect();
    let what = format!("{isa} {m} x {k} x {count} runs of {width}, {step} apart");
    assert_close(&got, &want, 1e-10, &what);
    assert!((0..m).all(|r| c[r * stride + n..][..3] == [7.0; 3]), "{what}: wrote between rows");
}

#[test]
fn gathered_products_are_those_of_the_windows() {
    let long: Vec<usize> = (0..450).map(|p| p % 5 + p / 5 * 70).collect();
    let shapes: [Shape<'_>; 8] = [
        (1, &[0], 1, 1, 1),
        (3, &[0, 1, 2, 10, 11, 12], 4, 8, 10),
        (17, &[5, 0, 3], 5, 33, 40),
        (14, &[0, 7, 300], 9, 7, 7),
        (64, &long, 6, 56, 66),
        (33, &long, 70, 1, 2),
        (2, &long, 3, 31, 33),
        (5, &[0, 4, 8], 40, 130, 131),
    ];
    each_isa(|isa| {
        for shape in shapes {
            for start in [false, true] {
                check_product(isa, shape, start);
            }
        }
    });
}

#[test]
fn gathered_products_without_terms_are_their_starts() {
    let packed = PackedA::<f64>::new(Isa::best(), Mat::row_major(&[0f64; 0], 2, 0).unwrap());
    let b = Gathered::new(&[], &[], 1, 3, 3).unwrap();
    let mut c = [9f64; 6];
    gemm_gathered(&packed, b, 0..3, Some(&[1.0, 2.0]), MatMut::new(&mut c, 2, 3, 3).unwrap()).unwrap();
    assert_eq!(c, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    gemm_gathered(&packed, b, 0..3, None, MatMut::new(&mut c, 2, 3, 3).unwrap()).unwrap();
    assert_eq!(c, [0.0; 6]);
    let c = MatMut::new(&mut c, 2, 3, 3).unwrap();
    assert!(matches!(gemm_gathered(&packed, b, 0..4, None, c), Err(Error::Range { .. })));
}

#[test]
fn stencils_add_up_shifted_rows() {
    each_isa(|isa| {
        for width in [1, 3, 7, 8, 15, 16, 17, 31, 56, 64, 130] {
            for (rows, spare) in [(1, 0), (3, 0), (5, 64)] {
                let (step, offsets) = (width + 2, [0, 1, 2, width + 2, 2 * width + 5]);
                let need = (rows - 1) * step + offsets[4] + width;
                let mut random = Random::new((width * 31 + rows) as u64);
                let (x, weights): (Vec<f32>, Vec<f32>) = (random.vec(need + spare), random.vec(5));
                let of = Stencil { offsets: &offsets, weights: &weights, step, start: 0.5 };
                let mut y = vec![7f32; rows * width];
                stencil(isa, &x, of, width, &mut y).unwrap();
                let want: Vec<f64> = (0..rows * width)
                    .map(|at| {
                        let first = at / width * step + at % width;
                        let terms = offsets.iter().zip(&weights);
                        terms.map(|(o, w)| f64::from(x[first + o]) * f64::from(*w)).sum::<f64>() + 0.5
                    })
                    .collect();
                assert_close(&y, &want, 1e-10, &format!("{isa} {rows} x {width}"));
                assert!(matches!(stencil(isa, &x[..need - 1], of, width, &mut y), Err(Error::Bounds { .. })));
            }
        }
    });
}
