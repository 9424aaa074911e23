//! A row of super-blocks times rows of activations with AVX-512 VNNI. A vector holds two steps.

use core::arch::x86_64::*;

use super::activations::{Block, Panel};
use super::super_blocks::{STEPS, SUPER_BLOCK, SuperFormat, scales};

/// The products of one row of weights, in blocks of `SIZE` bytes, with `M` rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn row<const M: usize, const SIZE: usize>(
    format: SuperFormat,
    row: &[u8],
    x: Panel<'_, M>,
) -> [f32; M] {
    let mut acc = [_mm512_setzero_ps(); M];
    let mut mins = [0.0f32; M];
    let mut blocks = x.blocks();
    // Lane 4 i and on have the scale of half a step: i of four.
    let spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    for block in row.as_chunks::<SIZE>().0 {
        // The hardware prefetcher stops at page boundaries.
        _mm_prefetch::<_MM_HINT_T0>(block.as_ptr().wrapping_add(8 * SIZE).cast());
        let scales =
            scales(format, block, |bits| _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into()))));
        for pair in 0..STEPS / 2 {
            let (Some(first), Some(second)) = (blocks.next(), blocks.next()) else { break };
            let (s, codes) = (2 * pair, codes(format, block, pair));
            let halves = |s: usize| scales.halves[s].map(|half| scales.factor[s] * f32::from(half));
            let ([a, b], [c, d]) = (halves(s), halves(s + 1));
            let quarters = _mm512_castps128_ps512(_mm_setr_ps(a, b, c, d));
            let factors = _mm512_permutexvar_ps(spread, quarters);
            for (i, acc) in acc.iter_mut().enumerate() {
                let quants = quants(first, second, i);
                let mut sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, quants);
                if format == SuperFormat::Q6K {
                    let offset = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(32), quants);
                    sums = _mm512_sub_epi32(sums, offset);
                }
                let (low, high) = (_mm512_set1_ps(first.scales[i]), _mm512_set1_ps(second.scales[i]));
                let x_scales = _mm512_mask_mov_ps(low, 0xff00, high);
                *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_mul_ps(factors, x_scales), *acc);
                if format != SuperFormat::Q6K {
                    mins[i] += scales.min[s] * (first.sums[i] as f32 * first.scales[i])
                        + scales.min[s + 1] * (second.sums[i] as f32 * second.scales[i]);
                }
            }
        }
    }
    core::array::from_fn(|i| _mm512_reduce_add_ps(acc[i]) - mins[i])
}

/// Decodes a row of weights in blocks of `SIZE` bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
pub(super) fn decode<const SIZE: usize>(format: SuperFormat, row: &[u8], out: &mut [f32]) {
    for (block, out) in row.as_chunks::<SIZE>().0.iter().zip(out.as_chunks_mut::<SUPER_BLOCK>().0) {
        let scales =
            scales(format, block, |bits| _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into()))));
        for (pair, out) in out.as_chunks_mut::<64>().0.iter_mut().enumerate() {
            let codes = codes(format, block, pair);
            let quarters = [
                _mm512_castsi512_si128(codes),
                _mm512_extracti32x4_epi32::<1>(codes),
                _mm512_extracti32x4_epi32::<2>(codes),
                _mm512_extracti32x4_epi32::<3>(codes),
            ];
            for (i, (quarter, out)) in quarters.into_iter().zip(out.as_chunks_mut::<16>().0).enumerate() {
                let (factor, min) = scales.of_half(format, 4 * pair + i);
                let wide = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(quarter));
                let values = _mm512_fmsub_ps(wide, _mm512_set1_ps(factor), _mm512_set1_ps(min));
                // SAFETY: 16 f32.
                unsafe { _mm512_storeu_ps(out.as_mut_ptr(), values) };
            }
        }
    }
}

/// The activations of two steps of row `i`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn quants<const M: usize>(first: Block<'_, M>, second: Block<'_, M>, i: usize) -> __m512i {
    // SAFETY: 32 bytes each.
    let (low, high) = unsafe {
        (
            _mm256_loadu_si256(first.quants[i].as_ptr().cast()),
            _mm256_loadu_si256(second.quants[i].as_ptr().cast()),
        )
    };
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// 32 bytes of a block, twice.
#[inline]
#[target_feature(enable = "avx512f")]
fn twice(block: &[u8], at: usize) -> __m512i {
    let bytes = &block[at..][..32];
    // SAFETY: 32 bytes.
    _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
}

/// Both halves of `v` shifted right by a number of bits each, of which `mask` keeps those that stay in their byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn fields(v: __m512i, low: usize, high: usize, mask: i8) -> __m512i {
    let shifts = _mm512_mask_set1_epi16(_mm512_set1_epi16(low as i16), 0xffff_0000, high as i16);
    _mm512_and_si512(_mm512_srlv_epi16(v, shifts), _mm512_set1_epi8(mask))
}

/// The codes of steps 2 `pair` and 2 `pair` + 1, as unsigned bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn codes<const SIZE: usize>(format: SuperFormat, block: &[u8; SIZE], pair: usize) -> __m512i {
    match format {
        SuperFormat::Q4K => fields(twice(block, 16 + 32 * pair), 0, 4, 15),
        SuperFormat::Q5K => {
            let low = fields(twice(block, 48 + 32 * pair), 0, 4, 15);
            let high = fields(twice(block, 16), 2 * pair, 2 * pair + 1, 1);
            _mm512_or_si512(low, _mm512_slli_epi16::<4>(high))
        }
        SuperFormat::Q6K => {
            let (half, within) = (pair / 2, pair % 2);
            let bytes = &block[64 * half..][..64];
            // SAFETY: 64 bytes.
            let low = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
            let low = fields(low, 4 * within, 4 * within, 15);
            let high = fields(twice(block, 128 + 32 * half), 4 * within, 4 * within + 2, 3);
            _mm512_or_si512(low, _mm512_slli_epi16::<4>(high))
        }
    }
}
