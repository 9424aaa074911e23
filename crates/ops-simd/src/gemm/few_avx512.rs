//! Products of a few bf16 rows with many, with AVX-512 BF16.

use core::arch::x86_64::*;

use half::bf16;

use super::bf16_avx512::{Bf16Pairs, pairs, restore_column_order};
use super::matrix::{Mat, MatMut};

/// Lanes of a vector of f32, and the sums that [`dots`] keeps in registers.
const LANES: usize = 16;
/// bf16 in a vector.
const WORDS: usize = 32;
/// Vectors of sums per row of [`sums`].
const WIDTH: usize = 4;

/// Calls `$kernel::<ROWS, ..>` for runs of 4, 2 and 1 rows of A. Three rows are computed as four.
macro_rules! by_rows {
    ($rows:expr, |$first:ident, $R:ident| $call:expr) => {{
        let (mut $first, rows) = (0, $rows);
        while $first < rows {
            match rows - $first {
                1 => {
                    const $R: usize = 1;
                    $call
                }
                2 => {
                    const $R: usize = 2;
                    $call
                }
                _ => {
                    const $R: usize = 4;
                    $call
                }
            }
            $first += 4;
        }
    }};
}

/// C = A·Bᵀ; the dimensions must match, and rows must be contiguous.
pub(super) fn dots(_: Bf16Pairs, a: &Mat<'_, bf16>, b: &Mat<'_, bf16>, c: &mut MatMut<'_, f32>) {
    // SAFETY: `Bf16Pairs` proves that the processor has the instructions.
    by_rows!(a.rows(), |first, R| unsafe { rows_of_dots::<R, { LANES / R }>(a, b, c, first) });
}

/// C += A·B; the dimensions must match, and rows must be contiguous.
pub(super) fn sums(_: Bf16Pairs, a: &Mat<'_, bf16>, b: &Mat<'_, bf16>, c: &mut MatMut<'_, f32>) {
    for column in (0..b.cols()).step_by(WIDTH * LANES) {
        let whole = b.cols() - column >= WIDTH * LANES;
        // SAFETY: `Bf16Pairs` proves that the processor has the instructions.
        by_rows!(a.rows(), |first, R| unsafe {
            if whole {
                columns_of_sums::<R, true>(a, b, c, first, column);
            } else {
                columns_of_sums::<R, false>(a, b, c, first, column);
            }
        });
    }
}

/// Row `i` of `x`, or its last one.
#[inline(always)]
fn row<'a>(x: &Mat<'a, bf16>, i: usize) -> &'a [bf16] {
    &x.tail(i.min(x.rows() - 1), 0)[..x.cols()]
}

/// Up to [`WORDS`] elements from `at` on, and zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load(x: &[bf16], at: usize) -> __m512i {
    let rest = &x[at.min(x.len())..];
    let mask = if rest.len() >= WORDS { !0 } else { (1 << rest.len()) - 1 };
    // SAFETY: the mask has a bit for each element that is there, and the others are not accessed.
    unsafe { _mm512_maskz_loadu_epi16(mask, rest.as_ptr().cast()) }
}

/// Computes `R` rows of C from `first` on, `KEYS` columns at a time: as many sums as a vector has lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn rows_of_dots<const R: usize, const KEYS: usize>(
    a: &Mat<'_, bf16>,
    b: &Mat<'_, bf16>,
    c: &mut MatMut<'_, f32>,
    first: usize,
) {
    let (n, k) = (b.rows(), b.cols());
    let mut x: [&[bf16]; R] = [&[]; R];
    for (r, x) in x.iter_mut().enumerate() {
        *x = row(a, first + r);
    }
    for j in (0..n).step_by(KEYS) {
        let mut y: [&[bf16]; KEYS] = [&[]; KEYS];
        for (q, y) in y.iter_mut().enumerate() {
            *y = row(b, j + q);
        }
        let mut acc = [[_mm512_setzero_ps(); KEYS]; R];
        let whole = k / WORDS * WORDS;
        for at in (0..whole).step_by(WORDS) {
            step(&mut acc, x.map(|x| &x[at..at + WORDS]), y.map(|y| &y[at..at + WORDS]));
        }
        if whole < k {
            step(&mut acc, x.map(|x| &x[whole..]), y.map(|y| &y[whole..]));
        }
        let mut lanes = [0.0f32; LANES];
        // SAFETY: 16 f32. `R` · `KEYS` is 16, too, so both are 16 vectors.
        unsafe {
            let acc: [__m512; LANES] = core::mem::transmute_copy(&acc);
            _mm512_storeu_ps(lanes.as_mut_ptr(), total_of_each(acc));
        }
        for (r, sums) in lanes.chunks_exact(KEYS).enumerate() {
            let to = c.row_mut(first + r);
            if !to.is_empty() {
                let count = KEYS.min(n - j);
                to[j..j + count].copy_from_slice(&sums[..count]);
            }
        }
    }
}

/// Adds the products of up to [`WORDS`] elements of `R` rows and `KEYS` others.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn step<const R: usize, const KEYS: usize>(
    acc: &mut [[__m512; KEYS]; R],
    x: [&[bf16]; R],
    y: [&[bf16]; KEYS],
) {
    let mut keys = [_mm512_setzero_si512(); KEYS];
    for (key, y) in keys.iter_mut().zip(y) {
        *key = load(y, 0);
    }
    for (acc, x) in acc.iter_mut().zip(x) {
        let x = pairs(load(x, 0));
        for (acc, key) in acc.iter_mut().zip(keys) {
            *acc = _mm512_dpbf16_ps(*acc, x, pairs(key));
        }
    }
}

/// The sum of all lanes of vector i in lane i. Every vector's lanes are added in the same order.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn total_of_each(v: [__m512; LANES]) -> __m512 {
    // Halves, then quarters, then the four lanes of each quarter.
    let mut a = [_mm512_setzero_ps(); 8];
    for (i, a) in a.iter_mut().enumerate() {
        let (x, y) = (v[i], v[i + 8]);
        *a = _mm512_add_ps(_mm512_mask_blend_ps(0xff00, x, y), _mm512_shuffle_f32x4::<0x4e>(x, y));
    }
    let mut b = [_mm512_setzero_ps(); 4];
    for (i, b) in b.iter_mut().enumerate() {
        let (x, y) = (a[i], a[i + 4]);
        let other = _mm512_mask_blend_ps(0xf0f0, y, x);
        let other = _mm512_shuffle_f32x4::<0xb1>(other, other);
        *b = _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, x, y), other);
    }
    let pair = |x, y| _mm512_add_ps(_mm512_unpacklo_ps(x, y), _mm512_unpackhi_ps(x, y));
    pair(pair(b[0], b[2]), pair(b[1], b[3]))
}

/// Adds to `R` rows of C from `first` on, and [`WIDTH`] vectors of columns from `column` on, of which all exist if `WHOLE`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn columns_of_sums<const R: usize, const WHOLE: bool>(
    a: &Mat<'_, bf16>,
    b: &Mat<'_, bf16>,
    c: &mut MatMut<'_, f32>,
    first: usize,
    column: usize,
) {
    let (k, columns) = (b.rows(), b.cols());
    let mut x: [&[bf16]; R] = [&[]; R];
    for (r, x) in x.iter_mut().enumerate() {
        *x = row(a, first + r);
    }
    let mut acc = [[_mm512_setzero_ps(); WIDTH]; R];
    for p in (0..k).step_by(2) {
        let even = &row(b, p)[column..];
        // An absent row is zeros, and not what is in memory after the last one.
        let odd = if p + 1 < k { &row(b, p + 1)[column..] } else { &[] };
        let mut y = [_mm512_setzero_si512(); WIDTH];
        for (q, y) in y.chunks_exact_mut(2).enumerate() {
            let (even, odd) = match WHOLE && p + 1 < k {
                true => (load(&even[q * WORDS..][..WORDS], 0), load(&odd[q * WORDS..][..WORDS], 0)),
                false => (load(even, q * WORDS), load(odd, q * WORDS)),
            };
            y[0] = _mm512_unpacklo_epi16(even, odd);
            y[1] = _mm512_unpackhi_epi16(even, odd);
        }
        for (acc, x) in acc.iter_mut().zip(x) {
            let weights =
                u32::from(x[p].to_bits()) | x.get(p + 1).map_or(0, |x| u32::from(x.to_bits())) << 16;
            let weights = pairs(_mm512_set1_epi32(weights as i32));
            for (acc, y) in acc.iter_mut().zip(y) {
                *acc = _mm512_dpbf16_ps(*acc, weights, pairs(y));
            }
        }
    }
    for (r, acc) in acc.into_iter().enumerate() {
        let to = c.row_mut(first + r);
        if to.is_empty() {
            continue;
        }
        let [a, b, c, d] = acc;
        for (q, sums) in
            [restore_column_order([a, b]), restore_column_order([c, d])].into_iter().flatten().enumerate()
        {
            let to = &mut to[columns.min(column + q * LANES)..];
            let mask = if to.len() >= LANES { !0 } else { (1 << to.len()) - 1 };
            // SAFETY: the mask has a bit for each column that is there, and the others are not accessed.
            unsafe {
                let before = _mm512_maskz_loadu_ps(mask, to.as_ptr());
                _mm512_mask_storeu_ps(to.as_mut_ptr(), mask, _mm512_add_ps(before, sums));
            }
        }
    }
}
