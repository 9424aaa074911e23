//! Products of two bf16 matrices with many rows, with AVX-512 BF16. One instruction multiplies pairs of neighbours along
//! the depth and adds both products to f32 sums, which is twice the work of an f32 instruction.
//!
//! The instruction treats inputs and results below 2⁻¹²⁶ as zero. Compared with sums of ordinary size, that is far below
//! the rounding error. [`imprecise_rows`] finds the rows where it may not be; those are computed again in f32.

use core::arch::x86_64::*;
use std::ops::Range;
use std::sync::OnceLock;

use half::bf16;

use super::blocked;
use super::matrix::{Mat, MatMut};
use super::packed::{Columns, PackedB};
use crate::isa::{Isa, Level};
use crate::scratch::Scratch;
use crate::x86::{cpuid, prefetch};

/// Rows and columns of the register tile.
const ROWS: usize = 14;
const COLS: usize = 32;
/// Lanes of a vector.
const LANES: usize = 16;
/// Depth of a block, in pairs. It is long because a tile of C is read and written once per block.
const DEPTH: usize = 384;
/// Number of blocks of a packed B that together have this depth.
const PACKED_BLOCKS: usize = 2 * DEPTH / blocked::DEPTH;
/// Maximum bytes of a block of A, which stays in the L2 cache, and of B, which stays in a share of the L3 cache.
const MAX_A_BYTES: usize = 560 << 10;
const MAX_B_BYTES: usize = 4 << 20;
/// Columns of a block of B.
const BLOCK_COLS: usize = MAX_B_BYTES / (4 * DEPTH) / COLS * COLS;
/// Up to this many rows, reading B in place is faster.
const MAX_ROWS_IN_PLACE: usize = 8;
/// From this many rows on, pairs are faster than f32 over panels.
const MIN_ROWS: usize = 4;
/// If the largest sum of a row is at least this, values flushed to zero are below the precision of the sums.
const MIN_PRECISE_SUM: f32 = 1.0 / (1u128 << 64) as f32;

/// Proof that the processor has AVX-512 F, BW, DQ, VL and BF16; only [`Bf16Pairs::detect`] creates one.
#[derive(Clone, Copy)]
pub(super) struct Bf16Pairs(());

impl Bf16Pairs {
    /// Detects whether the instruction runs at twice the rate of f32. It does on AMD cores; Intel cores run it at half that
    /// rate.
    pub(super) fn detect(isa: Isa) -> Option<Self> {
        static FAST: OnceLock<bool> = OnceLock::new();
        let fast = *FAST.get_or_init(|| {
            let vendor = cpuid(0, 0);
            let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
            name.as_flattened() == b"AuthenticAMD" && is_x86_feature_detected!("avx512bf16")
        });
        // This level implies F, BW, DQ and VL.
        (fast && isa.level() == Level::Avx512Vnni).then_some(Bf16Pairs(()))
    }

    /// Returns a value if the instruction speeds up A·B.
    pub(super) fn for_product(isa: Isa, a: &Mat<'_, bf16>, b: &Mat<'_, bf16>) -> Option<Self> {
        let large = a.rows() > MAX_ROWS_IN_PLACE && b.cols() >= COLS && a.cols() >= COLS;
        Self::detect(isa).filter(|_| large)
    }

    /// Like [`for_product`](Self::for_product), for a B in panels of rows, from which the kernel forms pairs.
    pub(super) fn for_packed(isa: Isa, a: &Mat<'_, bf16>) -> Option<Self> {
        let large = a.rows() >= MIN_ROWS && a.cols() >= COLS && a.cols().is_multiple_of(2);
        Self::detect(isa).filter(|_| large)
    }

    /// C = A·B; the dimensions must match.
    pub(super) fn product(self, a: Mat<'_, bf16>, b: Mat<'_, bf16>, c: &mut MatMut<'_, f32>) {
        // SAFETY: `self` proves that the processor has the instructions.
        unsafe { blocked_product(a, b, c) }
    }

    /// C = A·B for a range of columns of a packed B; the dimensions must match.
    pub(super) fn product_packed(
        self,
        a: Mat<'_, bf16>,
        b: &PackedB<'_, bf16>,
        columns: Columns,
        c: &mut MatMut<'_, f32>,
    ) {
        // SAFETY: `self` proves that the processor has the instructions.
        unsafe { packed_product(a, b, columns, c) }
    }
}

/// The next rows of C, starting at `from`, where a value flushed to zero may matter: the row's sums are not finite or tiny,
/// and its row of A is not all zeros.
pub(super) fn imprecise_rows(
    a: &Mat<'_, bf16>,
    c: &mut MatMut<'_, f32>,
    from: usize,
) -> Option<Range<usize>> {
    let mut doubt = |i: usize| {
        // Compared as integers, magnitudes sort as numbers do, and every NaN sorts after infinity.
        let largest = c.row_mut(i).iter().fold(0, |most, x| most.max(x.abs().to_bits()));
        let largest = f32::from_bits(largest);
        let ordinary = largest >= MIN_PRECISE_SUM && largest.is_finite();
        let zero = |p: usize| a.get(i, p).is_none_or(|x| x == bf16::ZERO);
        !ordinary && (largest != 0.0 || !(0..a.cols()).all(zero))
    };
    let start = (from..a.rows()).find(|i| doubt(*i))?;
    let end = (start..a.rows()).find(|i| !doubt(*i)).unwrap_or(a.rows());
    Some(start..end)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn blocked_product(a: Mat<'_, bf16>, b: Mat<'_, bf16>, c: &mut MatMut<'_, f32>) {
    let (m, n, pairs) = (a.rows(), b.cols(), a.cols().div_ceil(2));
    let depth = pairs.min(DEPTH);
    let block_rows = block_rows(m);
    let mut packed_a = Scratch::<u32>::new(depth * block_rows);
    let mut packed_b = Scratch::<u32>::new(depth * n.min(BLOCK_COLS).next_multiple_of(COLS));
    for j in (0..n).step_by(BLOCK_COLS) {
        let cols = BLOCK_COLS.min(n - j);
        for p in (0..pairs).step_by(DEPTH) {
            let k = DEPTH.min(pairs - p);
            let packed_b = &mut packed_b[..k * cols.next_multiple_of(COLS)];
            for (panel, out) in packed_b.chunks_exact_mut(k * COLS).enumerate() {
                let at = j + panel * COLS;
                pack::<COLS>(&b.transposed(), at..n.min(at + COLS), p, out);
            }
            for i in (0..m).step_by(block_rows) {
                let rows = block_rows.min(m - i);
                pack_panels(&a, i..i + rows, p, k, &mut packed_a);
                sweep::<1, false>(k, &packed_a, [packed_b], (i..i + rows, j..j + cols), c, p > 0);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn packed_product(a: Mat<'_, bf16>, b: &PackedB<'_, bf16>, columns: Columns, c: &mut MatMut<'_, f32>) {
    let (m, n, pairs) = (a.rows(), c.cols(), a.cols() / 2);
    let part = blocked::DEPTH / 2;
    let block_rows = block_rows(m);
    let mut packed_a = Scratch::<u32>::new(pairs.min(DEPTH) * block_rows);
    for j in (0..n).step_by(BLOCK_COLS) {
        let cols = BLOCK_COLS.min(n - j);
        for p in (0..pairs).step_by(DEPTH) {
            let k = DEPTH.min(pairs - p);
            let mut parts: [&[u32]; PACKED_BLOCKS] = [&[]; PACKED_BLOCKS];
            for (q, out) in (p..p + k).step_by(part).zip(&mut parts) {
                let rows = 2 * part.min(pairs - q);
                *out = bytemuck::cast_slice(b.block(2 * q, rows, columns, j..j + cols));
            }
            for i in (0..m).step_by(block_rows) {
                let rows = block_rows.min(m - i);
                pack_panels(&a, i..i + rows, p, k, &mut packed_a);
                sweep::<PACKED_BLOCKS, true>(k, &packed_a, parts, (i..i + rows, j..j + cols), c, p > 0);
            }
        }
    }
}

/// Rows per block of A, so that all blocks of `m` rows have about the same size.
fn block_rows(m: usize) -> usize {
    let most = MAX_A_BYTES / (4 * DEPTH) / ROWS * ROWS;
    m.div_ceil(m.div_ceil(most)).next_multiple_of(ROWS)
}

/// Packs rows of A into panels: `k` pairs starting at `p`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn pack_panels(a: &Mat<'_, bf16>, rows: Range<usize>, p: usize, k: usize, out: &mut [u32]) {
    for (i, out) in rows.clone().step_by(ROWS).zip(out.chunks_exact_mut(k * ROWS)) {
        pack::<ROWS>(a, i..rows.end.min(i + ROWS), p, out);
    }
}

/// Computes all tiles of a block of A and a block of B, `k` pairs deep. B is in `N` parts along the depth, either as pairs
/// or, if `PLAIN`, as rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn sweep<const N: usize, const PLAIN: bool>(
    k: usize,
    a: &[u32],
    b: [&[u32]; N],
    (rows, cols): (Range<usize>, Range<usize>),
    c: &mut MatMut<'_, f32>,
    accumulate: bool,
) {
    assert!(rows.end <= c.rows() && cols.end <= c.cols());
    let stride = c.row_stride();
    let panels = cols.len().div_ceil(COLS);
    for (panel, j) in cols.clone().step_by(COLS).enumerate() {
        let width = COLS.min(cols.end - j);
        let b = b.map(|part| {
            let size = part.len() / panels;
            &part[panel * size..][..size]
        });
        for (a, i) in a.chunks_exact(k * ROWS).zip(rows.clone().step_by(ROWS)) {
            let height = ROWS.min(rows.end - i);
            // SAFETY: rows i..i + height and columns j..j + width are within C, checked above.
            unsafe {
                let c = c.as_mut_ptr().add(i * stride + j);
                match height {
                    1..=4 => tile::<4, N, PLAIN>(a, b, c, stride, height, width, accumulate),
                    5..=8 => tile::<8, N, PLAIN>(a, b, c, stride, height, width, accumulate),
                    _ => tile::<ROWS, N, PLAIN>(a, b, c, stride, height, width, accumulate),
                }
            }
        }
    }
}

/// Computes `R` rows of two vectors of sums over panels of A and B, and stores `height` rows and `width` columns. If B is in
/// `PLAIN` rows, unpacking two rows forms pairs, which leaves groups of four columns alternating between the two vectors.
///
/// # Safety
/// `c` must be readable and writable for `height` ≤ `R` rows, `stride` apart, of `width` ≤ 32 columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn tile<const R: usize, const N: usize, const PLAIN: bool>(
    a: &[u32],
    b: [&[u32]; N],
    c: *mut f32,
    stride: usize,
    height: usize,
    width: usize,
    accumulate: bool,
) {
    // C is not cached by now, and it is needed only after the loop.
    for i in 0..height {
        for j in [0, LANES] {
            prefetch::<_MM_HINT_T0, _>(c.wrapping_add(i * stride + j));
        }
    }
    let mut acc = [[_mm512_setzero_ps(); 2]; R];
    let mut steps = a.as_chunks::<ROWS>().0.iter();
    for b in b {
        let size = b.len();
        for (b, a) in b.as_chunks::<COLS>().0.iter().zip(steps.by_ref()) {
            let (first, second) = b.split_at(LANES);
            // Prefetch the next panel while this one is read: with few rows of A the hardware prefetcher is too late.
            prefetch::<_MM_HINT_T1, _>(first.as_ptr().wrapping_add(size));
            prefetch::<_MM_HINT_T1, _>(second.as_ptr().wrapping_add(size));
            // SAFETY: 16 words each.
            let b = unsafe {
                [_mm512_loadu_si512(first.as_ptr().cast()), _mm512_loadu_si512(second.as_ptr().cast())]
            };
            let b = if PLAIN {
                [_mm512_unpacklo_epi16(b[0], b[1]), _mm512_unpackhi_epi16(b[0], b[1])]
            } else {
                b
            };
            for (acc, a) in acc.iter_mut().zip(a) {
                let x = pairs(_mm512_set1_epi32(*a as i32));
                acc[0] = _mm512_dpbf16_ps(acc[0], x, pairs(b[0]));
                acc[1] = _mm512_dpbf16_ps(acc[1], x, pairs(b[1]));
            }
        }
    }
    if PLAIN {
        acc.iter_mut().for_each(|acc| *acc = restore_column_order(*acc));
    }
    let masks = [first(width.min(LANES)), first(width.saturating_sub(LANES))];
    for (i, acc) in acc.into_iter().enumerate().take(height) {
        for (j, (mask, sums)) in masks.into_iter().zip(acc).enumerate() {
            // SAFETY: row i < height, and the mask is of columns below `width`.
            unsafe {
                let c = c.wrapping_add(i * stride + j * LANES);
                let before = if accumulate { _mm512_maskz_loadu_ps(mask, c) } else { _mm512_setzero_ps() };
                _mm512_mask_storeu_ps(c, mask, _mm512_add_ps(before, sums));
            }
        }
    }
}

/// Restores column order in a row whose groups of four columns alternate between the vectors.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn restore_column_order([a, b]: [__m512; 2]) -> [__m512; 2] {
    let first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    let second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    [_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, second, b)]
}

/// The same bits as pairs of bf16.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn pairs(v: __m512i) -> __m512bh {
    // SAFETY: both types are 64 bytes, and any bits are valid bf16 pairs.
    unsafe { core::mem::transmute(v) }
}

/// A mask of the first `n` lanes, n ≤ 16.
fn first(n: usize) -> __mmask16 {
    ((1u32 << n) - 1) as __mmask16
}

/// Packs a panel of `x`: pairs starting at depth `p`, for `rows`; rows up to the panel height `N` are zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) fn pack<const N: usize>(x: &Mat<'_, bf16>, rows: Range<usize>, p: usize, out: &mut [u32]) {
    let out = out.as_chunks_mut::<N>().0;
    let whole = (x.cols() / 2).saturating_sub(p).min(out.len());
    let mut done = 0;
    if x.col_stride() == 1 {
        done = whole / LANES * LANES;
        for q in (0..done).step_by(LANES) {
            for first in (0..N).step_by(LANES) {
                transpose_pairs(x, rows.start + first..rows.end, 2 * (p + q), &mut out[q..q + LANES], first);
            }
        }
    } else if x.row_stride() == 1 && rows.len() == N && N == COLS {
        done = whole;
        for (q, out) in out[..done].iter_mut().enumerate() {
            let at = |p: usize| x.tail(rows.start, p).first_chunk::<COLS>();
            if let (Some(even), Some(odd)) = (at(2 * (p + q)), at(2 * (p + q) + 1)) {
                interleave(even, odd, out.as_mut_slice());
            }
        }
    }
    let bits = |i: usize, p: usize| x.get(i, p).map_or(0, |x| u32::from(x.to_bits()));
    for (q, out) in out.iter_mut().enumerate().skip(done) {
        for (r, out) in out.iter_mut().enumerate() {
            let (i, p) = (rows.start + r, 2 * (p + q));
            *out = if i < rows.end { bits(i, p) | bits(i, p + 1) << 16 } else { 0 };
        }
    }
}

/// Transposes sixteen pairs, starting at column `p`, of up to sixteen contiguous rows: pair q of row r goes to
/// `out[q][first + r]`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn transpose_pairs<const N: usize>(
    x: &Mat<'_, bf16>,
    rows: Range<usize>,
    p: usize,
    out: &mut [[u32; N]],
    first_row: usize,
) {
    let mut v = [_mm512_setzero_si512(); LANES];
    for (v, i) in v.iter_mut().zip(rows) {
        let pairs: &[bf16] = &x.tail(i, p)[..2 * LANES];
        // Prefetch the next panel's rows: the hardware prefetcher does not track that many streams.
        prefetch::<_MM_HINT_T1, _>(pairs.as_ptr().wrapping_add(N * x.row_stride()));
        // SAFETY: 64 bytes.
        *v = unsafe { _mm512_loadu_si512(pairs.as_ptr().cast()) };
    }
    // Transpose 2×2 squares, then 4×4 squares, then quarters of the vectors.
    let mut twos = v;
    for (out, v) in twos.as_chunks_mut::<2>().0.iter_mut().zip(v.as_chunks::<2>().0) {
        *out = [_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1])];
    }
    let mut fours = twos;
    for (out, v) in fours.as_chunks_mut::<4>().0.iter_mut().zip(twos.as_chunks::<4>().0) {
        *out = [
            _mm512_unpacklo_epi64(v[0], v[2]),
            _mm512_unpackhi_epi64(v[0], v[2]),
            _mm512_unpacklo_epi64(v[1], v[3]),
            _mm512_unpackhi_epi64(v[1], v[3]),
        ];
    }
    let mask = first(N.saturating_sub(first_row).min(LANES));
    for w in 0..4 {
        let (a, b) = (fours[w], fours[4 + w]);
        let (c, d) = (fours[8 + w], fours[12 + w]);
        let even = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d));
        let odd = (_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(c, d));
        let columns = [
            (w, _mm512_shuffle_i32x4::<0x88>(even.0, even.1)),
            (4 + w, _mm512_shuffle_i32x4::<0x88>(odd.0, odd.1)),
            (8 + w, _mm512_shuffle_i32x4::<0xdd>(even.0, even.1)),
            (12 + w, _mm512_shuffle_i32x4::<0xdd>(odd.0, odd.1)),
        ];
        for (q, column) in columns {
            let out = &mut out[q][first_row..];
            // SAFETY: the mask is of no more lanes than `out` has.
            unsafe { _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), mask, column) };
        }
    }
}

/// Interleaves two contiguous rows into pairs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) fn interleave(even: &[bf16; COLS], odd: &[bf16; COLS], out: &mut [u32]) {
    /// Word indices for the lower and upper half; indices from 32 on select from the second vector.
    static ORDER: [[u16; 32]; 2] = {
        let mut order = [[0; 32]; 2];
        let mut i = 0;
        while i < 64 {
            order[i / 32][i % 32] = (i / 2 + i % 2 * 32) as u16;
            i += 1;
        }
        order
    };
    let out = &mut out[..COLS];
    for (half, order) in ORDER.iter().enumerate() {
        // SAFETY: 64 bytes each; sixteen words of `out` for each half.
        unsafe {
            let (even, odd) =
                (_mm512_loadu_si512(even.as_ptr().cast()), _mm512_loadu_si512(odd.as_ptr().cast()));
            let pairs = _mm512_permutex2var_epi16(even, _mm512_loadu_si512(order.as_ptr().cast()), odd);
            _mm512_storeu_si512(out[half * LANES..].as_mut_ptr().cast(), pairs);
        }
    }
}
