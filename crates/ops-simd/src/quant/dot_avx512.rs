//! One tile times rows of activations with AVX-512 VNNI.

use core::arch::x86_64::*;

use super::activations::Panel;
use super::blocks::TILE_ROWS;
use super::formats::TileFormat;
use super::tiles::Tile;
use crate::x86::prefetch;

/// Σ over blocks of scale · scale · Σ quant · quant, for sixteen rows of weights and `M` rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn tile<const M: usize>(
    format: TileFormat,
    tile: Tile<'_>,
    x: Panel<'_, M>,
) -> [[f32; TILE_ROWS]; M] {
    match format {
        TileFormat::Q8_0 => blocks::<M, true>(tile, x),
        TileFormat::Q4_0 => blocks::<M, false>(tile, x),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn blocks<const M: usize, const WIDE: bool>(tile: Tile<'_>, x: Panel<'_, M>) -> [[f32; TILE_ROWS]; M] {
    let format = if WIDE { TileFormat::Q8_0 } else { TileFormat::Q4_0 };
    let mut acc = [_mm512_setzero_ps(); M];
    let tiles = tile.quants.chunks_exact(format.quant_bytes() * TILE_ROWS).zip(tile.scales);
    let bytes = (format.quant_bytes() + 2) * TILE_ROWS;
    let next = tile.quants.as_ptr().wrapping_add(size_of_val(tile.quants) + size_of_val(tile.scales));
    for (b, ((quants, scales), x)) in tiles.zip(x.blocks()).enumerate() {
        // The same part of the next tile, to the L2 cache: the hardware's prefetcher stops at page boundaries.
        for line in 0..bytes.div_ceil(64) {
            prefetch::<_MM_HINT_T1, _>(next.wrapping_add(b * bytes + line * 64));
        }
        let weights = if WIDE { wide(quants) } else { halves(quants) };
        // SAFETY: sixteen f16, 32 bytes.
        let scales = _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(scales.as_ptr().cast()) });
        for (r, acc) in acc.iter_mut().enumerate() {
            // Two sums, so that consecutive instructions do not depend on each other.
            let mut sums = [_mm512_set1_epi32(-format.offset() * x.sums[r]), _mm512_setzero_si512()];
            for (g, w) in weights.iter().enumerate() {
                sums[g % 2] = _mm512_dpbusd_epi32(sums[g % 2], *w, _mm512_set1_epi32(x.quants[r][g]));
            }
            let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(sums[0], sums[1]));
            *acc = _mm512_fmadd_ps(sum, _mm512_mul_ps(scales, _mm512_set1_ps(x.scales[r])), *acc);
        }
    }
    let mut out = [[0.0; TILE_ROWS]; M];
    for (out, acc) in out.iter_mut().zip(acc) {
        // SAFETY: sixteen f32.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), acc) };
    }
    out
}

/// The 32 columns of a q8_0 block, four per vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn wide(quants: &[u8]) -> [__m512i; 8] {
    let mut out = [_mm512_setzero_si512(); 8];
    for (out, line) in out.iter_mut().zip(quants.chunks_exact(64)) {
        // SAFETY: 64 bytes.
        *out = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
    }
    out
}

/// The 32 columns of a q4_0 block, four per vector: low halves, then high.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn halves(quants: &[u8]) -> [__m512i; 8] {
    let mask = _mm512_set1_epi8(15);
    let mut out = [_mm512_setzero_si512(); 8];
    for (g, line) in quants.chunks_exact(64).enumerate().take(4) {
        // SAFETY: 64 bytes.
        let v = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
        out[g] = _mm512_and_si512(v, mask);
        out[4 + g] = _mm512_and_si512(_mm512_srli_epi16::<4>(v), mask);
    }
    out
}
