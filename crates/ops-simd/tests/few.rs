//! Products of a few bf16 rows with many, compared with f64. On processors without such instructions, these
//! tests do nothing.

use crate::common::{Random, assert_close, wide};
use half::bf16;
use ops_simd::Isa;
use ops_simd::gemm::{FewBf16, Mat, MatMut};

const LENGTHS: [usize; 9] = [1, 2, 3, 15, 16, 31, 33, 64, 130];

/// `rows` rows of `columns` numbers with gaps of NaN, and NaN after the last one.
fn rows(random: &mut Random, rows: usize, columns: usize, stride: usize) -> Vec<bf16> {
    let numbers: Vec<bf16> = random.vec(rows * columns);
    let mut memory = vec![bf16::NAN; rows * stride + 64];
    for (row, numbers) in numbers.chunks_exact(columns).enumerate() {
        memory[row * stride..][..columns].copy_from_slice(numbers);
    }
    memory
}

#[test]
fn dots_and_sums_are_those_of_f64_whatever_is_beside_them() {
    let Some(few) = FewBf16::detect(Isa::best()) else { return };
    let mut random = Random::new(7);
    for (m, k, n) in (1..=9).flat_map(|m| LENGTHS.into_iter().flat_map(move |k| LENGTHS.map(|n| (m, k, n)))) {
        let (a, b, v) =
            (rows(&mut random, m, k, k + 3), rows(&mut random, n, k, k + 5), rows(&mut random, k, n, n + 1));
        let mat = |x, rows, columns, stride| Mat::new(x, rows, columns, stride, 1).unwrap();
        let at = |x: &[bf16], at: usize| f64::from(x[at].to_f32());

        let mut c = vec![7.0f32; m * n];
        few.dots(mat(&a, m, k, k + 3), mat(&b, n, k, k + 5), MatMut::new(&mut c, m, n, n).unwrap()).unwrap();
        let dot =
            |(i, j): (usize, usize)| (0..k).map(|p| at(&a, i * (k + 3) + p) * at(&b, j * (k + 5) + p)).sum();
        let want: Vec<f64> = (0..m * n).map(|e| dot((e / n, e % n))).collect();
        assert_close(&c, &want, 1e-10, &format!("dots {m}x{k}x{n}"));

        let mut c: Vec<f32> = random.vec(m * n);
        let before = wide(&c);
        few.sums(mat(&a, m, k, k + 3), mat(&v, k, n, n + 1), MatMut::new(&mut c, m, n, n).unwrap()).unwrap();
        let sum = |(i, j): (usize, usize)| -> f64 {
            (0..k).map(|p| at(&a, i * (k + 3) + p) * at(&v, p * (n + 1) + j)).sum()
        };
        let want: Vec<f64> = (0..m * n).map(|e| before[e] + sum((e / n, e % n))).collect();
        assert_close(&c, &want, 1e-10, &format!("sums {m}x{k}x{n}"));
    }
}

#[test]
fn a_row_does_not_depend_on_the_others() {
    let Some(few) = FewBf16::detect(Isa::best()) else { return };
    let (k, n, mut random) = (70, 37, Random::new(3));
    let (a, b, v) = (rows(&mut random, 8, k, k), rows(&mut random, n, k, k), rows(&mut random, k, n, n));
    let products = |first: usize, m: usize| {
        let (mut dots, mut sums) = (vec![0.0f32; m * n], vec![0.0f32; m * n]);
        let a = Mat::new(&a[first * k..], m, k, k, 1).unwrap();
        few.dots(a, Mat::row_major(&b, n, k).unwrap(), MatMut::new(&mut dots, m, n, n).unwrap()).unwrap();
        few.sums(a, Mat::row_major(&v, k, n).unwrap(), MatMut::new(&mut sums, m, n, n).unwrap()).unwrap();
        let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        (bits(dots), bits(sums))
    };
    let all = products(0, 8);
    for (first, m) in (0..8).flat_map(|first| (1..=8 - first).map(move |m| (first, m))) {
        let part = first * n..(first + m) * n;
        assert_eq!(
            products(first, m),
            (all.0[part.clone()].to_vec(), all.1[part].to_vec()),
            "{m} from {first}"
        );
    }
}

#[test]
fn other_dimensions_are_refused() {
    let Some(few) = FewBf16::detect(Isa::best()) else { return };
    let x = [bf16::ONE; 64];
    let (a, b) = (Mat::row_major(&x, 2, 8).unwrap(), Mat::row_major(&x, 4, 7).unwrap());
    let mut c = [0.0; 8];
    assert!(few.dots(a, b, MatMut::new(&mut c, 2, 4, 4).unwrap()).is_err());
    assert!(few.sums(a, b, MatMut::new(&mut c, 2, 4, 4).unwrap()).is_err());
    let turned = Mat::new(&x, 4, 8, 1, 4).unwrap();
    assert!(few.dots(a, turned, MatMut::new(&mut c, 2, 4, 4).unwrap()).is_err());
    assert!(few.dots(a, Mat::row_major(&x, 4, 8).unwrap(), MatMut::new(&mut c, 1, 4, 4).unwrap()).is_err());
}
