//! Properties over random lengths, offsets and shapes: every instruction set agrees with f64 or plain Rust.

use crate::common::{Random, assert_close, wide};
use half::f16;
use ops_simd::gemm::{Mat, MatMut, gemm};
use ops_simd::quant::{Activations, TileFormat, Tiles, multiply_tiles, reference};
use ops_simd::{Isa, Store, Unary, rows, unary};
use proptest::prelude::*;

fn isa() -> impl Strategy<Value = Isa> {
    prop::sample::select(Isa::available())
}

fn store() -> impl Strategy<Value = Store> {
    prop::sample::select(vec![Store::Cached, Store::Stream])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Memory around the output is not written, and the output does not depend on the input's position.
    #[test]
    fn elementwise_anywhere(
        isa in isa(),
        store in store(),
        op in prop::sample::select(Unary::ALL.to_vec()),
        len in 0usize..3000,
        from in 0usize..20,
        to in 0usize..20,
    ) {
        let x: Vec<f32> = Random::new(len as u64).vec(len + from);
        let mut at_start = vec![0f32; len];
        unary(isa, op, &x[from..], &mut at_start, Store::Cached).unwrap();
        let mut y = vec![9f32; len + to + 5];
        unary(isa, op, &x[from..], &mut y[to..to + len], store).unwrap();
        let same = |a: &f32, b: &f32| a == b || a.is_nan() && b.is_nan();
        prop_assert!(y[to..to + len].iter().zip(&at_start).all(|(a, b)| same(a, b)));
        prop_assert!(y[..to].iter().chain(&y[to + len..]).all(|&y| y == 9.0));
    }

    #[test]
    fn softmax_rows_sum_to_one(isa in isa(), n in 1usize..700, count in 1usize..5, shift in -1e4f32..1e4) {
        let x: Vec<f32> = Random::new(n as u64).vec::<f32>(n * count).iter().map(|x| x + shift).collect();
        let mut y = vec![0f32; x.len()];
        rows::softmax(isa, &x, n, &mut y, Store::Cached).unwrap();
        for y in y.chunks(n) {
            let sum: f64 = wide(y).iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-5, "{}", sum);
        }
    }

    #[test]
    fn products_of_any_strides(
        isa in isa(),
        m in 1usize..40,
        k in 1usize..300,
        n in 1usize..90,
        a_layout in (any::<bool>(), 0usize..4),
        b_layout in (any::<bool>(), 0usize..4),
        gap in 0usize..4,
    ) {
        // Row-major or column-major, with gaps between rows or columns.
        let matrix = |rows: usize, cols: usize, (by_row, gap): (bool, usize)| {
            if by_row { (rows * (cols + gap), cols + gap, 1) } else { (cols * (rows + gap), 1, rows + gap) }
        };
        let (a_len, a_row, a_col) = matrix(m, k, a_layout);
        let (b_len, b_row, b_col) = matrix(k, n, b_layout);
        let mut random = Random::new((m * k * n) as u64);
        let (a, b): (Vec<f16>, Vec<f32>) = (random.vec(a_len), random.vec(b_len));
        let mut c = vec![0f32; m * (n + gap)];
        gemm(
            isa,
            Mat::new(&a, m, k, a_row, a_col).unwrap(),
            Mat::new(&b, k, n, b_row, b_col).unwrap(),
            MatMut::new(&mut c, m, n, n + gap).unwrap(),
            false,
        )
        .unwrap();
        let (a, b) = (wide(&a), wide(&b));
        let mut got = Vec::new();
        let mut want = Vec::new();
        for i in 0..m {
            for j in 0..n {
                want.push((0..k).map(|p| a[i * a_row + p * a_col] * b[p * b_row + j * b_col]).sum::<f64>());
                got.push(c[i * (n + gap) + j]);
            }
        }
        assert_close(&got, &want, 1e-10, &format!("{isa} {m} {k} {n}"));
    }

    #[test]
    fn quantized_products(
        isa in isa(),
        format in prop::sample::select(vec![TileFormat::Q8_0, TileFormat::Q4_0]),
        n in 1usize..50,
        blocks in 1usize..9,
        m in 1usize..20,
        seed: u64,
    ) {
        let k = blocks * 32;
        let mut random = Random::new(seed);
        let mut raw = Vec::new();
        for _ in 0..n * blocks {
            raw.extend(f16::from_f32(random.next()).to_bits().to_le_bytes());
            raw.extend((2..format.block_bytes()).map(|_| random.bits() as u8));
        }
        let x: Vec<f32> = random.vec(m * k);
        let x = Activations::new(isa, &x, k).unwrap();
        let tiles = Tiles::new(format, &raw, n, k).unwrap();
        let mut y = vec![0f32; m * n];
        multiply_tiles(isa, &tiles, 0..tiles.count(), &x, MatMut::new(&mut y, m, n, n).unwrap()).unwrap();
        let want = reference::multiply(format, &raw, n, &x).unwrap();
        assert_close(&y, &want, 1e-11, &format!("{isa} {format:?} {m} {n} {k}"));
    }
}
