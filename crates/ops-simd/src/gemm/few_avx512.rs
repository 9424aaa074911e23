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

/// The rows of a matrix that has at least one.
#[derive(Clone, Copy)]
struct Rows {
    first: *const bf16,
    step: usize,
    last: usize,
}

impl Rows {
    #[inline(always)]
    fn of(x: &Mat<'_, bf16>) -> Self {
        let last = x.rows() - 1;
        // The last row exists, and therefore all rows do.
        let _ = &x.tail(last, 0)[..x.cols()];
        Rows { first: x.tail(0, 0).as_ptr(), step: x.row_stride(), last }
    }
    /// The first element of row `i`, or of the last one. The columns of the matrix are readable from there.
    #[inline(always)]
    fn row(self, i: usize) -> *const bf16 {
        self.first.wrapping_add(i.min(self.last) * self.step)
    }
    /// `N` rows from `i` on, or the last one in place of those that do not exist.
    #[inline(always)]
    fn rows<const N: usize>(self, i: usize) -> [*const bf16; N] {
        std::array::from_fn(|r| self.row(i + r))
    }
}

/// A mask of the first `n` words of a vector, or of all if there are more.
#[inline(always)]
fn words(n: usize) -> __mmask32 {
    if n >= WORDS { !0 } else { (1 << n) - 1 }
}

/// Adds to `$acc`, for each of the rows `$x` and `$y`, the products of the words that `$load` loads at `$at`. A macro, because a
/// function would keep the sums in memory.
macro_rules! add_products {
    ($acc:ident, $x:ident, $y:ident, $at:expr, |$from:ident| $load:expr) => {{
        let load = |row: *const bf16| {
            let $from = row.wrapping_add($at);
            $load
        };
        let mut keys = [_mm512_setzero_si512(); KEYS];
        for (key, y) in keys.iter_mut().zip($y) {
            *key = load(y);
        }
        for (acc, x) in $acc.as_chunks_mut::<KEYS>().0.iter_mut().zip($x) {
            let x = pairs(load(x));
            for (acc, key) in acc.iter_mut().zip(keys) {
                *acc = _mm512_dpbf16_ps(*acc, x, pairs(key));
            }
        }
    }};
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
    if n == 0 {
        return;
    }
    let x = Rows::of(a).rows::<R>(first);
    let (b, whole, rest) = (Rows::of(b), k / WORDS * WORDS, words(k % WORDS));
    // Rows that are computed twice are beyond C.
    let rows = R.min(c.rows() - first);
    let to: [*mut f32; R] = std::array::from_fn(|r| c.row_mut(first + r).as_mut_ptr());
    for j in (0..n).step_by(KEYS) {
        let y = b.rows::<KEYS>(j);
        let mut acc = [_mm512_setzero_ps(); LANES];
        for at in (0..whole).step_by(WORDS) {
            // SAFETY: a vector of words from `at` on is within the rows.
            add_products!(acc, x, y, at, |from| unsafe { _mm512_loadu_si512(from.cast()) });
        }
        if whole < k {
            // SAFETY: the mask has a bit for each word that is left of the rows.
            add_products!(acc, x, y, whole, |from| unsafe { _mm512_maskz_loadu_epi16(rest, from.cast()) });
        }
        let sums = total_of_each(acc);
        for (r, to) in to.into_iter().enumerate().take(rows) {
            let to = to.wrapping_add(j);
            // SAFETY: columns `j` to `j + KEYS`, or to `n`, of a row of C.
            unsafe {
                if j + KEYS <= n {
                    store_lanes::<KEYS>(to, sums, r);
                } else {
                    let mut lanes = [0.0f32; LANES];
                    _mm512_storeu_ps(lanes.as_mut_ptr(), sums);
                    to.copy_from_nonoverlapping(lanes[r * KEYS..].as_ptr(), n - j);
                }
            }
        }
    }
}

/// Stores lanes `r * N` to `r * N + N`.
///
/// # Safety
/// `to` is writable for `N` f32.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
unsafe fn store_lanes<const N: usize>(to: *mut f32, sums: __m512, r: usize) {
    // SAFETY: the caller's.
    unsafe {
        match (N, r) {
            (4, 0) => _mm_storeu_ps(to, _mm512_castps512_ps128(sums)),
            (4, 1) => _mm_storeu_ps(to, _mm512_extractf32x4_ps::<1>(sums)),
            (4, 2) => _mm_storeu_ps(to, _mm512_extractf32x4_ps::<2>(sums)),
            (4, _) => _mm_storeu_ps(to, _mm512_extractf32x4_ps::<3>(sums)),
            (8, 0) => _mm256_storeu_ps(to, _mm512_castps512_ps256(sums)),
            (8, _) => _mm256_storeu_ps(to, _mm512_extractf32x8_ps::<1>(sums)),
            _ => _mm512_storeu_ps(to, sums),
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

/// Adds to `$acc`, for each of the rows `$x`, the products of a pair of weights and the words of two rows. A macro, because a function
/// would keep the sums in memory.
macro_rules! add_weighted {
    ($acc:ident, $x:ident, $even:expr, $odd:expr, |$from:ident| $weights:expr) => {{
        let mut y = [_mm512_setzero_si512(); WIDTH];
        for (y, (even, odd)) in y.as_chunks_mut::<2>().0.iter_mut().zip($even.into_iter().zip($odd)) {
            *y = [_mm512_unpacklo_epi16(even, odd), _mm512_unpackhi_epi16(even, odd)];
        }
        for (acc, $from) in $acc.iter_mut().zip($x) {
            let weights = pairs($weights);
            for (acc, y) in acc.iter_mut().zip(y) {
                *acc = _mm512_dpbf16_ps(*acc, weights, pairs(y));
            }
        }
    }};
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
    let masks = [words(columns - column), words((columns - column).saturating_sub(WORDS))];
    if k == 0 {
        return;
    }
    let (x, b) = (Rows::of(a).rows::<R>(first), Rows::of(b));
    let mut acc = [[_mm512_setzero_ps(); WIDTH]; R];
    for p in (0..k / 2 * 2).step_by(2) {
        let rows = [b.row(p), b.row(p + 1)].map(|row| row.wrapping_add(column));
        // SAFETY: all columns of the vectors exist, or the masks have bits for those that do.
        let [even, odd] = unsafe {
            if WHOLE {
                rows.map(|row| {
                    [_mm512_loadu_si512(row.cast()), _mm512_loadu_si512(row.wrapping_add(WORDS).cast())]
                })
            } else {
                rows.map(|row| {
                    [
                        _mm512_maskz_loadu_epi16(masks[0], row.cast()),
                        _mm512_maskz_loadu_epi16(masks[1], row.wrapping_add(WORDS).cast()),
                    ]
                })
            }
        };
        // SAFETY: weights `p` and `p + 1` exist.
        add_weighted!(acc, x, even, odd, |x| unsafe {
            _mm512_set1_epi32(x.add(p).cast::<i32>().read_unaligned())
        });
    }
    if k % 2 == 1 {
        let row = b.row(k - 1).wrapping_add(column);
        // SAFETY: as above; what is in memory after the last row and the last weight is not read.
        let even = unsafe {
            [
                _mm512_maskz_loadu_epi16(masks[0], row.cast()),
                _mm512_maskz_loadu_epi16(masks[1], row.wrapping_add(WORDS).cast()),
            ]
        };
        // SAFETY: the last weight exists.
        add_weighted!(acc, x, even, [_mm512_setzero_si512(); 2], |x| unsafe {
            _mm512_set1_epi32(i32::from((*x.add(k - 1)).to_bits()))
        });
    }
    for (r, acc) in acc.iter().enumerate() {
        let Some(to) = c.row_mut(first + r).get_mut(column..) else { continue };
        for (acc, to) in acc.as_chunks::<2>().0.iter().zip(to.chunks_mut(WORDS)) {
            let [low, high] = restore_column_order(*acc);
            let (to, more) = to.split_at_mut(to.len().min(LANES));
            add_to(to, low);
            add_to(more, high);
        }
    }
}

/// Adds as many lanes as there are numbers. Stores with a mask take many times as long.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_to(to: &mut [f32], sums: __m512) {
    let sum = |to: &mut [f32; LANES]| {
        // SAFETY: 16 f32.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), _mm512_add_ps(_mm512_loadu_ps(to.as_ptr()), sums)) }
    };
    match to.first_chunk_mut::<LANES>() {
        Some(to) => sum(to),
        None => {
            let mut lanes = [0.0; LANES];
            lanes[..to.len()].copy_from_slice(to);
            sum(&mut lanes);
            to.copy_from_slice(&lanes[..to.len()]);
        }
    }
}
