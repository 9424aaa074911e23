//! Matrix products compared with f64.

use crate::common::{Random, assert_close, each_isa, on_a_line, wide};
use half::{bf16, f16};
use ops_simd::gemm::{Input, Mat, MatMut, PackedB, gemm, gemm_packed};
use ops_simd::{Element, Isa};

/// The tolerance for long sums.
const BASE: f64 = 1e-10;

fn product(a: &[f64], b: &[f64], c: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let mut out = c.to_vec();
    for i in 0..m {
        for p in 0..k {
            for j in 0..n {
                out[i * n + j] += a[i * k + p] * b[p * n + j];
            }
        }
    }
    out
}

fn transpose<T: Copy>(x: &[T], rows: usize, cols: usize) -> Vec<T> {
    (0..cols).flat_map(|j| (0..rows).map(move |i| x[i * cols + j])).collect()
}

const SHAPES: [[usize; 3]; 19] = [
    [1, 300, 130],
    [5, 129, 200],
    [8, 140, 133],
    [1, 1, 1],
    [2, 3, 5],
    [6, 16, 64],
    [7, 17, 33],
    [13, 40, 48],
    [14, 256, 32],
    [15, 257, 31],
    [16, 64, 128],
    [29, 300, 96],
    [33, 1, 70],
    [64, 64, 64],
    [5, 520, 260],
    [128, 30, 20],
    [600, 20, 40],
    [3, 600, 512],
    [37, 515, 130],
];

fn check<A, B>(isa: Isa, shape: [usize; 3])
where
    A: Element + Input<Acc = f32>,
    B: Element + Input<Acc = f32>,
{
    let [m, k, n] = shape;
    let mut random = Random::new((m * 31 + k * 7 + n) as u64);
    let (a, b): (Vec<A>, Vec<B>) = (random.vec(m * k), random.vec(k * n));
    let start: Vec<f32> = random.vec(m * n);
    let (ta, tb) = (transpose(&a, m, k), transpose(&b, k, n));
    for (i, accumulate) in [false, true, false, true].into_iter().enumerate() {
        let a =
            if i & 1 == 0 { Mat::row_major(&a, m, k).unwrap() } else { Mat::new(&ta, m, k, 1, m).unwrap() };
        let b =
            if i & 2 == 0 { Mat::row_major(&b, k, n).unwrap() } else { Mat::new(&tb, k, n, 1, k).unwrap() };
        let what = format!("{isa} {} {} {shape:?} case {i}", A::NAME, B::NAME);
        let zero = vec![0.0; m * n];
        let start64 = if accumulate { wide(&start) } else { zero };
        let want = product(&wide(&elements(&a)), &wide(&elements(&b)), &start64, shape);

        // C has gaps between its rows, which must not be written.
        let stride = n + 3;
        let mut c = vec![7f32; m * stride];
        for r in 0..m {
            c[r * stride..][..n].copy_from_slice(&start[r * n..][..n]);
        }
        gemm(isa, a, b, MatMut::new(&mut c, m, n, stride).unwrap(), accumulate).unwrap();
        let got: Vec<f32> = (0..m).flat_map(|r| c[r * stride..][..n].to_vec()).collect();
        assert_close(&got, &want, BASE, &what);
        assert!((0..m).all(|r| c[r * stride + n..][..3] == [7.0; 3]), "{what}: wrote between rows");

        let packed = PackedB::new(isa, b);
        let mut c = start.clone();
        let middle = (n / 2).next_multiple_of(packed.tile()).min(n);
        let (left, right) = MatMut::new(&mut c, m, n, n).unwrap().split_at_col(middle);
        gemm_packed(a, &packed, 0..middle, left, accumulate).unwrap();
        gemm_packed(a, &packed, middle..n, right, accumulate).unwrap();
        assert_close(&c, &want, BASE, &format!("{what} packed"));

        let mut memory = Vec::new();
        let memory = on_a_line(&mut memory, PackedB::<B>::size(isa, k, n));
        PackedB::pack_into(isa, b, memory).unwrap();
        let borrowed = PackedB::<B>::from_bytes(isa, k, n, memory).unwrap();
        let mut repeated = start.clone();
        gemm_packed(a, &borrowed, 0..n, MatMut::new(&mut repeated, m, n, n).unwrap(), accumulate).unwrap();
        assert_eq!(repeated, c, "{what} in borrowed memory");
        let mut unpacked = vec![B::default(); k * n];
        borrowed.unpack_transposed(&mut unpacked).unwrap();
        let (left, right) = (wide(&unpacked), wide(&elements(&b.transposed())));
        assert_eq!(left, right, "{what} unpacked");
    }
}

/// The elements in row-major order.
fn elements<T: Copy>(x: &Mat<'_, T>) -> Vec<T> {
    (0..x.rows()).flat_map(|i| (0..x.cols()).filter_map(move |j| x.get(i, j))).collect()
}

#[test]
fn f32_products() {
    each_isa(|isa| SHAPES.into_iter().for_each(|shape| check::<f32, f32>(isa, shape)));
}

#[test]
fn half_products() {
    each_isa(|isa| {
        SHAPES.into_iter().for_each(|shape| check::<f32, f16>(isa, shape));
        SHAPES.into_iter().for_each(|shape| check::<f16, f16>(isa, shape));
        SHAPES.into_iter().for_each(|shape| check::<bf16, bf16>(isa, shape));
        check::<f16, f32>(isa, [15, 257, 31]);
        check::<bf16, f16>(isa, [15, 257, 31]);
    });
}

/// Shapes larger than a block in each direction, and not multiples of its size.
#[test]
fn bf16_products_of_many_rows() {
    for shape in [[40, 1601, 70], [9, 64, 2800], [401, 800, 40], [15, 33, 32], [28, 96, 100]] {
        let [m, k, n] = shape;
        let mut random = Random::new((m + k + n) as u64);
        let (a, b): (Vec<bf16>, Vec<bf16>) = (random.vec(m * k), random.vec(k * n));
        let (ta, tb) = (transpose(&a, m, k), transpose(&b, k, n));
        let want = product(&wide(&a), &wide(&b), &vec![0.0; m * n], shape);
        each_isa(|isa| {
            for a in [Mat::row_major(&a, m, k).unwrap(), Mat::new(&ta, m, k, 1, m).unwrap()] {
                for b in [Mat::row_major(&b, k, n).unwrap(), Mat::new(&tb, k, n, 1, k).unwrap()] {
                    let mut c = vec![7f32; m * n];
                    gemm(isa, a, b, MatMut::new(&mut c, m, n, n).unwrap(), false).unwrap();
                    assert_close(&c, &want, BASE, &format!("{isa} {shape:?}"));
                    assert_close(&packed(isa, a, b), &want, BASE, &format!("{isa} {shape:?} packed"));
                }
            }
        });
    }
}

/// The product with a packed B.
fn packed(isa: Isa, a: Mat<'_, bf16>, b: Mat<'_, bf16>) -> Vec<f32> {
    let (m, n) = (a.rows(), b.cols());
    let mut c = vec![7f32; m * n];
    let panels = PackedB::new(isa, b);
    gemm_packed(a, &panels, 0..n, MatMut::new(&mut c, m, n, n).unwrap(), false).unwrap();
    c
}

/// Instructions that flush subnormal numbers to zero must not affect the result.
#[test]
fn tiny_and_infinite_bf16() {
    let shape = [24, 64, 40];
    let [m, k, n] = shape;
    let mut random = Random::new(5);
    let (mut a, mut b): (Vec<bf16>, Vec<bf16>) = (random.vec(m * k), random.vec(k * n));
    let mut scale = |i: usize, by: f32| {
        a[i * k..][..k].iter_mut().for_each(|x| *x = bf16::from_f32(x.to_f32() * by));
    };
    scale(3, 1e-25);
    scale(4, 1e-38);
    scale(5, 1e-39);
    scale(9, 0.0);
    a[7 * k] = bf16::from_bits(1);
    // A row that is not finite affects only itself, so the others still go through the instructions that
    // flush; a column makes every row not finite.
    a[11 * k] = bf16::INFINITY;
    same_special_numbers(&a, &b, shape);
    b[0] = bf16::INFINITY;
    same_special_numbers(&a, &b, shape);
}

/// Compares products where some numbers are not finite, or tiny.
fn same_special_numbers(a: &[bf16], b: &[bf16], shape: [usize; 3]) {
    let [m, k, n] = shape;
    let want = product(&wide(a), &wide(b), &vec![0.0; m * n], shape);
    each_isa(|isa| {
        let mut c = vec![7f32; m * n];
        let (a, b) = (Mat::row_major(a, m, k).unwrap(), Mat::row_major(b, k, n).unwrap());
        gemm(isa, a, b, MatMut::new(&mut c, m, n, n).unwrap(), false).unwrap();
        for c in [c, packed(isa, a, b)] {
            for (i, (c, want)) in c.chunks(n).zip(want.chunks(n)).enumerate() {
                let (mut got, mut wanted) = (Vec::new(), Vec::new());
                for (&c, &want) in c.iter().zip(want) {
                    if want.is_finite() {
                        got.push(c);
                        wanted.push(want);
                    } else {
                        assert!(
                            f64::from(c) == want || c.is_nan() && want.is_nan(),
                            "{isa} row {i}: {c}, not {want}"
                        );
                    }
                }
                assert_close(&got, &wanted, BASE, &format!("{isa} row {i}"));
            }
        }
    });
}

/// Rows without elements have no address in the matrix.
#[test]
fn rows_without_columns_are_empty() {
    let mut nothing: [f32; 0] = [];
    let mut c = MatMut::new(&mut nothing, 3, 0, 1 << 40).unwrap();
    assert!(c.row_mut(2).is_empty());
    let (mut above, mut below) = c.split_at_row(1);
    assert_eq!((above.rows(), below.rows()), (1, 2));
    assert!(above.row_mut(0).is_empty() && below.row_mut(1).is_empty());
}

#[test]
fn f64_products() {
    each_isa(|isa| {
        for shape in SHAPES {
            let [m, k, n] = shape;
            let mut random = Random::new(9);
            let mut make = |n: usize| (0..n).map(|_| f64::from(random.next())).collect::<Vec<_>>();
            let (a, b, mut c) = (make(m * k), make(k * n), make(m * n));
            let want = product(&a, &b, &c, shape);
            let (a, b) = (Mat::row_major(&a, m, k).unwrap(), Mat::row_major(&b, k, n).unwrap());
            gemm(isa, a, b, MatMut::new(&mut c, m, n, n).unwrap(), true).unwrap();
            let error = crate::common::nmse(&c, &want);
            assert!(error <= 1e-28, "{isa} {shape:?} {error:e}");
        }
    });
}

#[test]
fn tasks_make_the_whole() {
    each_isa(|isa| {
        let [m, k, n] = [61, 300, 170];
        let mut random = Random::new(4);
        let (a, b): (Vec<f32>, Vec<f32>) = (random.vec(m * k), random.vec(k * n));
        let (a, b) = (Mat::row_major(&a, m, k).unwrap(), Mat::row_major(&b, k, n).unwrap());
        let mut whole = vec![0f32; m * n];
        gemm(isa, a, b, MatMut::new(&mut whole, m, n, n).unwrap(), false).unwrap();
        let mut parts = vec![0f32; m * n];
        let (top, bottom) = MatMut::new(&mut parts, m, n, n).unwrap().split_at_row(20);
        std::thread::scope(|scope| {
            for (c, i) in [(top, 0..20), (bottom, 20..m)] {
                let (left, right) = c.split_at_col(96);
                for (c, j) in [(left, 0..96), (right, 96..n)] {
                    let a = a.row_range(i.start, i.end).unwrap();
                    let b = b.col_range(j.start, j.end).unwrap();
                    scope.spawn(move || gemm(isa, a, b, c, false).unwrap());
                }
            }
        });
        assert_eq!(whole, parts, "{isa}");
    });
}

#[test]
fn nothing_to_sum() {
    let isa = Isa::best();
    let none: [f32; 0] = [];
    let mut c = [5f32; 6];
    let (a, b) = (Mat::row_major(&none, 2, 0).unwrap(), Mat::row_major(&none, 0, 3).unwrap());
    gemm(isa, a, b, MatMut::new(&mut c, 2, 3, 3).unwrap(), true).unwrap();
    assert_eq!(c, [5.0; 6]);
    gemm(isa, a, b, MatMut::new(&mut c, 2, 3, 3).unwrap(), false).unwrap();
    assert_eq!(c, [0.0; 6]);
    let (a, b) = (Mat::row_major(&none, 0, 4).unwrap(), Mat::row_major(&[1f32; 12], 4, 3).unwrap());
    gemm(isa, a, b, MatMut::new(&mut [], 0, 3, 3).unwrap(), false).unwrap();
}

#[test]
fn errors_say_what_does_not_fit() {
    let x = [0f32; 12];
    let error = Mat::new(&x, 3, 4, 5, 1).unwrap_err();
    assert_eq!(error.to_string(), "matrix has 12 elements, but its dimensions and strides reach 14");
    assert!(Mat::new(&x, usize::MAX, 2, usize::MAX, 1).is_err());
    assert!(MatMut::new(&mut [0f32; 12], 3, 4, 3).is_err(), "rows overlap");
    let mat = Mat::row_major(&x, 3, 4).unwrap();
    assert!(mat.row_range(2, 4).is_err());
    let error =
        gemm(Isa::best(), mat, mat, MatMut::new(&mut [0f32; 9], 3, 3, 3).unwrap(), false).unwrap_err();
    assert_eq!(error.to_string(), "rows of b has 3 elements, wanted 4");
    let packed = PackedB::new(Isa::best(), mat.transposed());
    let error = PackedB::pack_into(Isa::best(), mat, &mut [0u8; 64]).unwrap_err();
    assert!(error.to_string().starts_with("memory of 64 bytes, wanted "), "{error}");
    let c = MatMut::new(&mut [0f32; 6], 3, 2, 2).unwrap().rows();
    assert_eq!(c, 3);
    let mut out = [0f32; 6];
    let error = gemm_packed(mat, &packed, 1..3, MatMut::new(&mut out, 3, 2, 2).unwrap(), false).unwrap_err();
    assert_eq!(error.to_string(), "columns 1..3 is not a range of tiles within 3");
}
