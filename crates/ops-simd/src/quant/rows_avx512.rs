//! Rows of blocks by rows of activations with AVX-512 VNNI, two blocks in a vector.

use core::arch::x86_64::*;

use super::activations::{Panel, WORDS};
use super::blocks::{Q8_0_BYTES, scale_bits};

/// Σ over blocks of scale · scale · Σ quant · quant, for `R` rows of blocks of `SIZE` bytes and `M` of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn rows<const M: usize, const R: usize, const SIZE: usize>(
    rows: [&[u8]; R],
    x: Panel<'_, M>,
) -> [[f32; M]; R] {
    let rows = rows.map(|row| row.as_chunks::<SIZE>().0);
    let blocks = rows.iter().fold(x.scales.len(), |n, row| n.min(row.len()));
    let (quants, scales, rows) = (&x.quants[..blocks], &x.scales[..blocks], rows.map(|row| &row[..blocks]));
    let mut acc = [[_mm512_setzero_ps(); M]; R];
    let mut b = 0;
    while b + 1 < blocks {
        let mut pair = [(&rows[0][0], &rows[0][0]); R];
        for (pair, row) in pair.iter_mut().zip(rows) {
            // The next rows are known: the processor's own prefetch stops at every page.
            _mm_prefetch::<_MM_HINT_T1>(row[b].as_ptr().wrapping_add(R * blocks * SIZE).cast());
            *pair = (&row[b], &row[b + 1]);
        }
        step(&mut acc, pair, (&quants[b], &quants[b + 1]), (&scales[b], &scales[b + 1]));
        b += 2;
    }
    if b < blocks {
        let pair = rows.map(|row| (&row[b], &[0; SIZE]));
        step(&mut acc, pair, (&quants[b], &[[0; WORDS]; M]), (&scales[b], &[0.0; M]));
    }
    let mut out = [[0.0; M]; R];
    for (out, acc) in out.as_flattened_mut().iter_mut().zip(acc.as_flattened()) {
        *out = _mm512_reduce_add_ps(*acc);
    }
    out
}

/// Adds the products of two blocks of every row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn step<const M: usize, const R: usize, const SIZE: usize>(
    acc: &mut [[__m512; M]; R],
    rows: [(&[u8; SIZE], &[u8; SIZE]); R],
    quants: (&[[i32; WORDS]; M], &[[i32; WORDS]; M]),
    scales: (&[f32; M], &[f32; M]),
) {
    let zero_point = _mm512_set1_epi8(if SIZE == Q8_0_BYTES { i8::MIN } else { 8 });
    let (mut x, mut offset, mut x_scale) =
        ([_mm512_setzero_si512(); M], [_mm512_setzero_si512(); M], [_mm512_setzero_ps(); M]);
    for i in 0..M {
        x[i] = words(&quants.0[i], &quants.1[i]);
        // Weights are made unsigned by adding the zero point, whose share is known before them.
        let share = _mm512_dpbusd_epi32(_mm512_setzero_si512(), zero_point, x[i]);
        offset[i] = _mm512_sub_epi32(_mm512_setzero_si512(), share);
        let first = _mm512_set1_ps(scales.0[i]);
        x_scale[i] = _mm512_mask_mov_ps(first, 0xff00, _mm512_set1_ps(scales.1[i]));
    }
    for (row, acc) in rows.into_iter().zip(acc) {
        let w = unsigned(row.0, row.1);
        let bits = |block: &[u8; SIZE]| scale_bits(block) as i16;
        let both = _mm256_mask_set1_epi16(_mm256_set1_epi16(bits(row.0)), 0xff00, bits(row.1));
        let scale = _mm512_cvtph_ps(both);
        for (i, acc) in acc.iter_mut().enumerate() {
            let sums = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(offset[i], w, x[i]));
            *acc = _mm512_fmadd_ps(sums, _mm512_mul_ps(scale, x_scale[i]), *acc);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx2")]
fn words(a: &[i32; WORDS], b: &[i32; WORDS]) -> __m512i {
    // SAFETY: 32 bytes each.
    let (a, b) = unsafe { (_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast())) };
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b)
}

/// The quants of two blocks, the zero point added.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
fn unsigned<const SIZE: usize>(a: &[u8; SIZE], b: &[u8; SIZE]) -> __m512i {
    if SIZE == Q8_0_BYTES {
        let (a, b): (&[u8], &[u8]) = (&a[2..34], &b[2..34]);
        // SAFETY: 32 bytes each.
        let (a, b) =
            unsafe { (_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast())) };
        let w = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b);
        return _mm512_xor_si512(w, _mm512_set1_epi8(i8::MIN));
    }
    let (a, b): (&[u8], &[u8]) = (&a[2..18], &b[2..18]);
    // SAFETY: 16 bytes each.
    let (a, b) = unsafe { (_mm_loadu_si128(a.as_ptr().cast()), _mm_loadu_si128(b.as_ptr().cast())) };
    let (a, b) = (_mm256_broadcastsi128_si256(a), _mm256_broadcastsi128_si256(b));
    let w = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b);
    // Low halves in the even quarters, high halves in the odd.
    let shifts = _mm512_set_epi64(
        0x0004_0004_0004_0004,
        0x0004_0004_0004_0004,
        0,
        0,
        0x0004_0004_0004_0004,
        0x0004_0004_0004_0004,
        0,
        0,
    );
    _mm512_and_si512(_mm512_srlv_epi16(w, shifts), _mm512_set1_epi8(15))
}
