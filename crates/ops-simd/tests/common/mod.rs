//! Shared by the tests: data, f64 references and the tolerance.

use ops_simd::gemm::MatMut;
use ops_simd::quant::Activations;
use ops_simd::{Element, Error, Isa};

/// `n` bytes of `memory` that start on a cache line.
pub(crate) fn on_a_line(memory: &mut Vec<u8>, n: usize) -> &mut [u8] {
    memory.resize(n + 64, 0xAB);
    let start = memory.as_ptr().align_offset(64);
    &mut memory[start..start + n]
}

/// Pseudo-random numbers in [-1, 1), the same every time.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn next(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }

    pub(crate) fn vec<T: Element>(&mut self, n: usize) -> Vec<T> {
        (0..n).map(|_| T::from_f32(self.next() * 4.0)).collect()
    }
}

pub(crate) fn wide<T: Element>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| f64::from(x.to_f32())).collect()
}

/// Σ (got − want)² / Σ want²
pub(crate) fn nmse(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let error: f64 = got.iter().zip(want).map(|(g, w)| (g - w).powi(2)).sum();
    let scale: f64 = want.iter().map(|w| w * w).sum();
    if scale == 0.0 { error / want.len().max(1) as f64 } else { error / scale }
}

/// nmse(got, want) ≤ base + 2·nmse(round(want), want)
pub(crate) fn assert_close<T: Element>(got: &[T], want: &[f64], base: f64, what: &str) {
    let rounded: Vec<T> = want.iter().map(|&w| T::from_f32(w as f32)).collect();
    let limit = base + 2.0 * nmse(&wide(&rounded), want);
    let error = nmse(&wide(got), want);
    assert!(error <= limit, "{what}: nmse {error:e} > {limit:e}");
}

/// Lengths around vector and unrolling boundaries.
pub(crate) const LENGTHS: [usize; 19] =
    [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 255, 1000, 4099];

pub(crate) fn each_isa(f: impl Fn(Isa)) {
    for isa in Isa::available() {
        f(isa);
    }
}

/// Integers that 8 bits represent exactly: every block of 32 has a 127. Long rows have outliers.
fn exact_activations(m: usize, k: usize) -> Vec<f32> {
    let mut random = Random::new(m as u64 + 5);
    let mut x: Vec<f32> =
        (0..m * k).map(|i| if i % 32 == 7 { 127.0 } else { (random.bits() % 255) as f32 - 127.0 }).collect();
    if k >= 256 {
        for (i, x) in x.chunks_mut(k).enumerate() {
            // Some in the same column, some in the last block; not all rows have the same number.
            (x[40], x[k - 5 - i % 3]) = (5000.0, if i % 2 == 0 { -7000.0 } else { 3.0 });
        }
    }
    x
}

/// Compares the products of few rows with exact loops over the weights `values`, in rows of `k`.
pub(crate) fn check_products(
    isa: Isa,
    what: &str,
    (values, k): (&[f64], usize),
    multiply: impl Fn(&Activations, MatMut<'_, f32>) -> Result<(), Error>,
) {
    let n = values.len() / k;
    for m in [1, 2, 3, 4, 8, 13] {
        let x = exact_activations(m, k);
        let dot = |x: &[f32], w: &[f64]| x.iter().zip(w).map(|(x, w)| f64::from(*x) * w).sum::<f64>();
        let want: Vec<f64> = x.chunks(k).flat_map(|x| values.chunks(k).map(move |w| dot(x, w))).collect();
        let mut y = vec![f32::NAN; m * n];
        let x = Activations::new(isa, &x, k).unwrap();
        multiply(&x, MatMut::new(&mut y, m, n, n).unwrap()).unwrap();
        let error = nmse(&wide(&y), &want);
        assert!(error <= 1e-11, "{isa} {what} {m} {n} {k}: {error:e}");
    }
}
