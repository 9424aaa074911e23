//! One tile times rows of activations with AVX2, which multiplies bytes in pairs to 16 bits.

use core::arch::x86_64::*;

use super::activations::{Panel, WORDS};
use super::blocks::Format;
use super::tiles::{TILE_ROWS, Tile};

/// Σ over blocks of scale · scale · Σ quant · quant, for sixteen rows of weights and `M` rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn tile<const M: usize>(format: Format, tile: Tile<'_>, x: Panel<'_, M>) -> [[f32; TILE_ROWS]; M] {
    let mut out = [[0.0; TILE_ROWS]; M];
    for half in 0..2 {
        let sums = match format {
            Format::Q8_0 => blocks::<M, true>(tile, x, half),
            Format::Q4_0 => blocks::<M, false>(tile, x, half),
        };
        for (out, sums) in out.iter_mut().zip(sums) {
            // SAFETY: eight of sixteen f32; `half` is 0 or 1.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr().add(8 * half), sums) };
        }
    }
    out
}

/// Computes eight rows of the tile.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn blocks<const M: usize, const WIDE: bool>(tile: Tile<'_>, x: Panel<'_, M>, half: usize) -> [__m256; M] {
    let format = if WIDE { Format::Q8_0 } else { Format::Q4_0 };
    let mut acc = [_mm256_setzero_ps(); M];
    let tiles = tile.quants.chunks_exact(format.quant_bytes() * TILE_ROWS).zip(tile.scales);
    for ((quants, scales), x) in tiles.zip(x.blocks()) {
        // SAFETY: eight of sixteen f16; `half` is 0 or 1.
        let scales = _mm256_cvtph_ps(unsafe { _mm_loadu_si128(scales.as_ptr().add(8 * half).cast()) });
        for (r, acc) in acc.iter_mut().enumerate() {
            let sum = if WIDE {
                signed_bytes(quants, half, &x.quants[r])
            } else {
                let offset = _mm256_set1_epi32(-format.offset() * x.sums[r]);
                _mm256_add_epi32(offset, halves(quants, half, &x.quants[r]))
            };
            let scale = _mm256_mul_ps(scales, _mm256_set1_ps(x.scales[r]));
            *acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, *acc);
        }
    }
    acc
}

/// Eight rows of one line of the tile.
#[inline]
#[target_feature(enable = "avx2")]
fn line(quants: &[u8], g: usize, half: usize) -> __m256i {
    let bytes = &quants[64 * g + 32 * half..][..32];
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// q8_0: unsigned times signed would exceed 16 bits with the offset, so the offset is removed and the signs are moved.
#[inline]
#[target_feature(enable = "avx2")]
fn signed_bytes(quants: &[u8], half: usize, x: &[i32; WORDS]) -> __m256i {
    let mut sum = _mm256_setzero_si256();
    for (g, x) in x.iter().enumerate() {
        let w = _mm256_xor_si256(line(quants, g, half), _mm256_set1_epi8(i8::MIN));
        // At most 128 · 127 · 2 in magnitude.
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(_mm256_set1_epi32(*x), w));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    sum
}

/// q4_0: all eight products of pairs together fit 16 bits, at most 8 · 15 · 127 · 2.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(quants: &[u8], half: usize, x: &[i32; WORDS]) -> __m256i {
    let mask = _mm256_set1_epi8(15);
    let mut pairs = _mm256_setzero_si256();
    for g in 0..4 {
        let v = line(quants, g, half);
        let (low, high) = (_mm256_and_si256(v, mask), _mm256_and_si256(_mm256_srli_epi16::<4>(v), mask));
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(low, _mm256_set1_epi32(x[g])));
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(high, _mm256_set1_epi32(x[4 + g])));
    }
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}
