//! Rows of blocks times rows of activations with AVX2, which multiplies bytes in pairs to 16 bits.

use core::arch::x86_64::*;

use super::activations::Panel;
use super::blocks::scale_bits;
use super::formats::{Marker, TileFormat};
use super::panels::WORDS;
use crate::x86::prefetch;

/// Σ over blocks of scale · scale · Σ quant · quant, for `R` rows of blocks and `M` rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn rows<const M: usize, const R: usize, F: Marker<TileFormat>>(
    rows: [&[u8]; R],
    x: Panel<'_, M>,
) -> [[f32; M]; R] {
    let rows = rows.map(|row| F::blocks(row));
    let mut acc = [[_mm256_setzero_ps(); M]; R];
    for (b, x) in x.blocks().enumerate() {
        for (row, acc) in rows.iter().zip(&mut acc) {
            let block = &row[b];
            // Prefetch the next rows: the hardware prefetcher stops at page boundaries.
            prefetch::<_MM_HINT_T1, _>(block.as_ref().as_ptr().wrapping_add(R * row.len() * F::BYTES));
            let w = signed::<F>(block);
            let magnitude = _mm256_abs_epi8(w);
            let scale = _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(scale_bits(block.as_ref()).into())));
            for (i, acc) in acc.iter_mut().enumerate() {
                // At most 128 · 127 · 2 in magnitude.
                let pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(words(&x.quants[i]), w));
                let sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                *acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(scale * x.scales[i]), *acc);
            }
        }
    }
    let mut out = [[0.0; M]; R];
    for (out, acc) in out.as_flattened_mut().iter_mut().zip(acc.as_flattened()) {
        *out = lanes(*acc);
    }
    out
}

#[inline]
#[target_feature(enable = "avx2")]
fn words(x: &[i32; WORDS]) -> __m256i {
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
}

/// The quants of a block.
#[inline]
#[target_feature(enable = "avx2")]
fn signed<F: Marker<TileFormat>>(block: &F::Block) -> __m256i {
    let quants = &block.as_ref()[2..];
    if F::FORMAT == TileFormat::Q8_0 {
        let quants: &[u8] = &quants[..32];
        // SAFETY: 32 bytes.
        return unsafe { _mm256_loadu_si256(quants.as_ptr().cast()) };
    }
    let quants: &[u8] = &quants[..16];
    // SAFETY: 16 bytes.
    let v = unsafe { _mm_loadu_si128(quants.as_ptr().cast()) };
    let halves = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16::<4>(v), v), _mm256_set1_epi8(15));
    _mm256_sub_epi8(halves, _mm256_set1_epi8(8))
}

/// The sum of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes(v: __m256) -> f32 {
    let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
}
