//! Rows of q6_k and iq4_xs in file order times one row of activations, with vectors of 512 bits. Their scales need a permutation
//! anyway, so that half as many instructions do the work of those for 256 bits, and more of the next bytes are on their way.

use core::arch::x86_64::*;

use super::lookup::LEVELS;
use super::one_row::Prepared;
use super::one_row_x86::{AHEAD, iq4_xs_numbers, load_half, unit};

/// The product of a row of weights, in blocks of 210 bytes for q6_k or 136 for iq4_xs, with a row of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn product<const SIZE: usize>(row: &[u8], x: &[Prepared]) -> f32 {
    let mut acc = [_mm512_setzero_ps(); 3];
    for (block, x) in row.as_chunks::<SIZE>().0.iter().zip(x) {
        _mm_prefetch::<_MM_HINT_T1>(block.as_ptr().wrapping_add(AHEAD).cast());
        if SIZE == 210 { q6_k(&mut acc, block, x) } else { iq4_xs(&mut acc, block, x) }
    }
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(acc[0], acc[1]), acc[2]))
}

/// 64 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(block: &[u8], at: usize) -> __m512i {
    let bytes = &block[at..][..64];
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// 32 bytes from `at` on, twice.
#[inline]
#[target_feature(enable = "avx512f")]
fn twice(block: &[u8], at: usize) -> __m512i {
    let bytes = &block[at..][..32];
    // SAFETY: 32 bytes.
    _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn floats(from: &[f32; 16]) -> __m512 {
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

/// Vector `v` of the activations: two steps.
#[inline]
#[target_feature(enable = "avx512f")]
fn quants(x: &Prepared, v: usize) -> __m512i {
    load(bytemuck::cast_slice(x.quants.as_flattened()), 64 * v)
}

/// Scales 4 `v` and on, in four lanes each.
#[inline]
#[target_feature(enable = "avx512f")]
fn spread(scales: __m512, v: usize) -> __m512 {
    let quarters = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    _mm512_permutexvar_ps(_mm512_add_epi32(quarters, _mm512_set1_epi32(4 * v as i32)), scales)
}

/// The low and the high halves of bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn nibbles(bytes: __m512i) -> [__m512i; 2] {
    let mask = _mm512_set1_epi8(15);
    [_mm512_and_si512(bytes, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), mask)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn q6_k(acc: &mut [__m512; 3], block: &[u8], x: &Prepared) {
    let numbers = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_half(block, 192)));
    let unit = unit(block, 208);
    let scales = _mm512_mul_ps(numbers, _mm512_insertf32x8::<1>(_mm512_castps256_ps512(unit), unit));
    acc[2] = _mm512_fmadd_ps(scales, floats(&x.offsets), acc[2]);
    let scales = _mm512_mul_ps(scales, floats(&x.scales));
    // Bits 0 and 1, or 2 and 3 in the upper half, move to 4 and 5, and so do 4 and 5, or 6 and 7.
    let left = _mm512_mask_set1_epi16(_mm512_set1_epi16(4), 0xffff_0000, 2);
    let right = _mm512_mask_set1_epi16(_mm512_setzero_si512(), 0xffff_0000, 2);
    for half in 0..2 {
        let high = twice(block, 128 + 32 * half);
        let highs = [_mm512_sllv_epi16(high, left), _mm512_srlv_epi16(high, right)];
        for (i, codes) in nibbles(load(block, 64 * half)).into_iter().enumerate() {
            let codes = _mm512_or_si512(codes, _mm512_and_si512(highs[i], _mm512_set1_epi8(48)));
            let v = 2 * half + i;
            let sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, quants(x, v));
            acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), spread(scales, v), acc[i]);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn iq4_xs(acc: &mut [__m512; 3], block: &[u8], x: &Prepared) {
    // Scales in the lower half, offsets of steps in the upper.
    let scales = _mm256_mul_ps(iq4_xs_numbers(block), unit(block, 0));
    let both = _mm512_insertf32x8::<1>(_mm512_castps256_ps512(scales), scales);
    let scales = _mm512_mul_ps(both, floats(&x.scales));
    acc[2] = _mm512_mask_add_ps(acc[2], 0xff00, acc[2], scales);
    let levels = _mm512_broadcast_i32x4(load_half(&LEVELS, 0));
    for (half, acc) in acc[..2].iter_mut().enumerate() {
        let [low, high] = nibbles(load(block, 8 + 64 * half)).map(|codes| _mm512_shuffle_epi8(levels, codes));
        let sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, quants(x, 2 * half));
        let sums = _mm512_dpbusd_epi32(sums, high, quants(x, 2 * half + 1));
        *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), spread(scales, half), *acc);
    }
}
