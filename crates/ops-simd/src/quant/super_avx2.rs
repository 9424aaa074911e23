//! A row of super-blocks times rows of activations with AVX2, which multiplies bytes in pairs to 16 bits.

use core::arch::x86_64::*;

use super::activations::{Panel, WORDS};
use super::super_blocks::{STEPS, SUPER_BLOCK, SuperFormat, scales};

/// The products of one row of weights, in blocks of `SIZE` bytes, with `M` rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn row<const M: usize, const SIZE: usize>(
    format: SuperFormat,
    row: &[u8],
    x: Panel<'_, M>,
) -> [f32; M] {
    let mut acc = [_mm256_setzero_ps(); M];
    let mut mins = [0.0f32; M];
    let mut blocks = x.blocks();
    for block in row.as_chunks::<SIZE>().0 {
        // The hardware prefetcher stops at page boundaries.
        _mm_prefetch::<_MM_HINT_T0>(block.as_ptr().wrapping_add(8 * SIZE).cast());
        let scales =
            scales(format, block, |bits| _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into()))));
        for (s, x) in (0..STEPS).zip(&mut blocks) {
            let codes = codes(format, block, s);
            let [low, high] = scales.halves[s];
            let halves = _mm256_set_m128i(_mm_set1_epi16(high), _mm_set1_epi16(low));
            for (i, acc) in acc.iter_mut().enumerate() {
                let quants = words(&x.quants[i]);
                // At most 63 · 127 · 2 in magnitude, and half of that for the offset.
                let mut pairs = _mm256_maddubs_epi16(codes, quants);
                if format == SuperFormat::Q6K {
                    let plain = _mm256_maddubs_epi16(_mm256_set1_epi8(1), quants);
                    pairs = _mm256_sub_epi16(pairs, _mm256_slli_epi16::<5>(plain));
                }
                let sums = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, halves));
                *acc = _mm256_fmadd_ps(sums, _mm256_set1_ps(scales.factor[s] * x.scales[i]), *acc);
                if format != SuperFormat::Q6K {
                    mins[i] += scales.min[s] * (x.sums[i] as f32 * x.scales[i]);
                }
            }
        }
    }
    core::array::from_fn(|i| lanes(acc[i]) - mins[i])
}

/// Decodes a row of weights in blocks of `SIZE` bytes.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn decode<const SIZE: usize>(format: SuperFormat, row: &[u8], out: &mut [f32]) {
    for (block, out) in row.as_chunks::<SIZE>().0.iter().zip(out.as_chunks_mut::<SUPER_BLOCK>().0) {
        let scales =
            scales(format, block, |bits| _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into()))));
        for (s, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let codes = codes(format, block, s);
            let (low, high) = (_mm256_castsi256_si128(codes), _mm256_extracti128_si256::<1>(codes));
            let eights = [low, _mm_unpackhi_epi64(low, low), high, _mm_unpackhi_epi64(high, high)];
            for (i, (eight, out)) in eights.into_iter().zip(out.as_chunks_mut::<8>().0).enumerate() {
                let (factor, min) = scales.of_half(format, 2 * s + i / 2);
                let wide = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight));
                let values = _mm256_fmsub_ps(wide, _mm256_set1_ps(factor), _mm256_set1_ps(min));
                // SAFETY: 8 f32.
                unsafe { _mm256_storeu_ps(out.as_mut_ptr(), values) };
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn words(x: &[i32; WORDS]) -> __m256i {
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
}

/// 32 bytes of a block.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes(block: &[u8], at: usize) -> __m256i {
    let bytes = &block[at..][..32];
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// `v` shifted right by a number of bits, of which `mask` keeps those that stay in their byte.
#[inline]
#[target_feature(enable = "avx2")]
fn field(v: __m256i, shift: usize, mask: i8) -> __m256i {
    _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(shift as i32)), _mm256_set1_epi8(mask))
}

/// The codes of step `s`, as unsigned bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn codes<const SIZE: usize>(format: SuperFormat, block: &[u8; SIZE], s: usize) -> __m256i {
    match format {
        SuperFormat::Q4K => field(bytes(block, 16 + s / 2 * 32), s % 2 * 4, 15),
        SuperFormat::Q5K => {
            let low = field(bytes(block, 48 + s / 2 * 32), s % 2 * 4, 15);
            _mm256_or_si256(low, _mm256_slli_epi16::<4>(field(bytes(block, 16), s, 1)))
        }
        SuperFormat::Q6K => {
            let low = field(bytes(block, s / 4 * 64 + s % 2 * 32), s % 4 / 2 * 4, 15);
            let high = field(bytes(block, 128 + s / 4 * 32), s % 4 * 2, 3);
            _mm256_or_si256(low, _mm256_slli_epi16::<4>(high))
        }
    }
}

/// The sum of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes(v: __m256) -> f32 {
    let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
}
