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
pub fn dots(_: Bf16Pairs, a: &Mat<'_, bf16>, b: &Mat<'_, bf16>, c: &mut MatMut<'_, f32>) {
    // SAFETY: `Bf16Pairs` proves that the processor has the instructions.
    by_rows!(a.rows(), |first, R| unsafe { rows_of_dots::<R, { LANES / R }>(a, b, c, first) });
}

/// C += A·B; the dimensions must match, and rows must be contiguous.
pub fn sums(_: Bf16Pairs, a: &Mat<'_, bf16>, b: &Mat<'_, bf16>, c: &mut MatMut<'_, f32>) {
    for column in (0..b.cols()).step_by(WIDTH * LANES) {
        // SAFETY: `Bf16Pairs` proves that the processor has the instructions.
        by_rows!(a.rows(), |first, R| unsafe { columns_of_sums::<R>(a, b, c, first, column) });
    }
}

/// The first element of row `i` of `x`, or of its last one; `x.cols()` elements are readable from there.
#[inline(always)]
fn row(x: &Mat<'_, bf16>, i: usize) -> *const bf16 {
    x.tail(i.min(x.rows() - 1), 0)[..x.cols()].as_ptr()
}

/// A mask of the first `n` words of a vector, or of all if there are more.
#[inline(always)]
fn words(n: usize) -> __mmask32 {
    if n >= WORDS { !0 } else { (1 << n) - 1 }
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
    let mut x = [std::ptr::null(); R];
    for (r, x) in x.iter_mut().enumerate() {
        *x = row(a, first + r);
    }
    for j in (0..n).step_by(KEYS) {
        let mut y = [std::ptr::null(); KEYS];
        for (q, y) in y.iter_mut().enumerate() {
            *y = row(b, j + q);
        }
        let mut acc = [_mm512_setzero_ps(); LANES];
        for at in (0..k).step_by(WORDS) {
            let mask = words(k - at);
            let mut keys = [_mm512_setzero_si512(); KEYS];
            for q in 0..KEYS {
                // SAFETY: `at` is below `k`, and the mask has bits for elements below `k` only.
                keys[q] = unsafe { _mm512_maskz_loadu_epi16(mask, y[q].add(at).cast()) };
            }
            for r in 0..R {
                // SAFETY: as above.
                let x = pairs(unsafe { _mm512_maskz_loadu_epi16(mask, x[r].add(at).cast()) });
                for q in 0..KEYS {
                    acc[r * KEYS + q] = _mm512_dpbf16_ps(acc[r * KEYS + q], x, pairs(keys[q]));
                }
            }
        }
        let mut lanes = [0.0f32; LANES];
        // SAFETY: 16 f32.
        unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), total_of_each(acc)) };
        for (r, sums) in lanes.chunks_exact(KEYS).enumerate() {
            // A row that was computed twice is beyond C, and empty.
            if let Some(to) = c.row_mut(first + r).get_mut(j..n.min(j + KEYS)) {
                to.copy_from_slice(&sums[..to.len()]);
            }
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

/// Adds to `R` rows of C from `first` on, and [`WIDTH`] vectors of columns from `column` on, as far as there are columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn columns_of_sums<const R: usize>(
    a: &Mat<'_, bf16>,
    b: &Mat<'_, bf16>,
    c: &mut MatMut<'_, f32>,
    first: usize,
    column: usize,
) {
    let (k, columns) = (b.rows(), b.cols());
    let masks = [words(columns - column), words((columns - column).saturating_sub(WORDS))];
    let mut x = [std::ptr::null(); R];
    for (r, x) in x.iter_mut().enumerate() {
        *x = row(a, first + r);
    }
    let mut acc = [[_mm512_setzero_ps(); WIDTH]; R];
    for p in (0..k).step_by(2) {
        let even = row(b, p);
        // An absent row is zeros, and not what is in memory after the last one.
        let (odd, has_odd) = (row(b, p + 1), p + 1 < k);
        let mut y = [_mm512_setzero_si512(); WIDTH];
        for q in 0..WIDTH / 2 {
            let odd_mask = if has_odd { masks[q] } else { 0 };
            let at = column + q * WORDS;
            // SAFETY: the masks have bits for columns that exist only, and nothing else is accessed.
            let (even, odd) = unsafe {
                (
                    _mm512_maskz_loadu_epi16(masks[q], even.wrapping_add(at).cast()),
                    _mm512_maskz_loadu_epi16(odd_mask, odd.wrapping_add(at).cast()),
                )
            };
            y[2 * q] = _mm512_unpacklo_epi16(even, odd);
            y[2 * q + 1] = _mm512_unpackhi_epi16(even, odd);
        }
        for r in 0..R {
            // SAFETY: `p` is below `k`, and so is `p + 1` if there is an odd row.
            let weights = unsafe {
                if has_odd {
                    x[r].add(p).cast::<u32>().read_unaligned()
                } else {
                    u32::from((*x[r].add(p)).to_bits())
                }
            };
            let weights = pairs(_mm512_set1_epi32(weights as i32));
            for q in 0..WIDTH {
                acc[r][q] = _mm512_dpbf16_ps(acc[r][q], weights, pairs(y[q]));
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
