//! A row of table codes times rows of activations with AVX2, which multiplies bytes in pairs to 16 bits.

use core::arch::x86_64::*;

use super::activations::Panel;
use super::lookup::LookupFormat;
use super::one_row_avx2::lanes;
use crate::x86::prefetch;

/// The products of one row of weights with `M` rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn row<const M: usize>(format: LookupFormat, row: &[u8], x: Panel<'_, M>) -> [f32; M] {
    let half = |bits: u16| _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into())));
    // SAFETY: 16 bytes.
    let levels = unsafe { _mm_loadu_si128(format.levels().as_ptr().cast()) };
    let levels = _mm256_broadcastsi128_si256(levels);
    let mut acc = [_mm256_setzero_ps(); M];
    let mut blocks = x.blocks();
    format.each_step(row, half, |(factor, bytes)| {
        let Some(x) = blocks.next() else { return };
        // The hardware prefetcher stops at page boundaries.
        prefetch::<_MM_HINT_T0, _>(bytes.as_ptr().wrapping_add(1024));
        let weights = weights(levels, bytes);
        let sizes = _mm256_abs_epi8(weights);
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: 32 bytes.
            let quants = unsafe { _mm256_loadu_si256(x.quants[i].as_ptr().cast()) };
            // At most 127 · 127 · 2 in magnitude.
            let pairs = _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(quants, weights));
            let sums = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            *acc = _mm256_fmadd_ps(sums, _mm256_set1_ps(factor * x.scales[i]), *acc);
        }
    });
    acc.map(|acc| lanes(acc))
}

/// The levels of sixteen bytes of codes.
#[inline]
#[target_feature(enable = "avx2")]
fn weights(levels: __m256i, bytes: &[u8; 16]) -> __m256i {
    // SAFETY: 16 bytes.
    let codes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let codes = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(codes), _mm_srli_epi16::<4>(codes));
    _mm256_shuffle_epi8(levels, _mm256_and_si256(codes, _mm256_set1_epi8(15)))
}
