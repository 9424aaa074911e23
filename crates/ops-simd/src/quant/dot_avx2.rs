//! One tile times rows of activations with AVX2, which multiplies bytes in pairs to 16 bits.

use core::arch::x86_64::*;

use super::activations::{Block, Panel};
use super::blocks::TILE_ROWS;
use super::codes::avx2_dot::{TOGETHER, scaled, store, sums};
use super::formats::TileFormat;
use super::tiles::Tile;
use crate::scratch::Aligned;

/// Σ over blocks of scale · scale · Σ quant · quant, for sixteen rows of weights and `M` rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn tile<const M: usize>(
    format: TileFormat,
    tile: Tile<'_>,
    x: Panel<'_, M>,
) -> [[f32; TILE_ROWS]; M] {
    let mut out = Aligned([[0.0; TILE_ROWS]; M]);
    match format {
        TileFormat::Q8_0 => add_blocks::<M, true>(tile, x, &mut out.0),
        TileFormat::Q4_0 => add_blocks::<M, false>(tile, x, &mut out.0),
    }
    out.0
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_blocks<const M: usize, const WIDE: bool>(
    tile: Tile<'_>,
    x: Panel<'_, M>,
    out: &mut [[f32; TILE_ROWS]; M],
) {
    let format = if WIDE { TileFormat::Q8_0 } else { TileFormat::Q4_0 };
    let tiles = tile.quants.chunks_exact(format.quant_bytes() * TILE_ROWS).zip(tile.scales);
    for ((quants, scales), x) in tiles.zip(x.blocks()) {
        // SAFETY: sixteen f16.
        let scales = [0, 8].map(|at| unsafe { _mm_loadu_si128(scales.as_ptr().add(at).cast()) });
        let scales = scales.map(|scales| _mm256_cvtph_ps(scales));
        let mut from = 0;
        while from + TOGETHER <= M {
            add_rows::<M, TOGETHER, WIDE>(quants, scales, x, from, out);
            from += TOGETHER;
        }
        if from + 2 <= M {
            add_rows::<M, 2, WIDE>(quants, scales, x, from, out);
            from += 2;
        }
        if from < M {
            add_rows::<M, 1, WIDE>(quants, scales, x, from, out);
        }
    }
}

/// Adds the products of a block with `R` rows of activations, from row `from` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_rows<const M: usize, const R: usize, const WIDE: bool>(
    quants: &[u8],
    scales: [__m256; 2],
    x: Block<'_, M>,
    from: usize,
    out: &mut [[f32; TILE_ROWS]; M],
) {
    let rows = x.quants[from..].first_chunk::<R>();
    let (Some(rows), Some(out)) = (rows, out[from..].first_chunk_mut::<R>()) else { return };
    let sums = if WIDE {
        sums::<R, 8>(|g, half| line(quants, g, half), rows)
    } else {
        sums::<R, 4>(|g, half| halves(line(quants, g % 4, half), g / 4), rows)
    };
    // The codes of q4_0 have an offset. That of q8_0 was taken off its codes.
    let offset = if WIDE { 0 } else { TileFormat::Q4_0.offset() };
    let acc = scaled(sums, offset, scales, x, from, out);
    store(out, acc);
}

/// Eight rows of one line of the tile.
#[inline]
#[target_feature(enable = "avx2")]
fn line(quants: &[u8], g: usize, half: usize) -> __m256i {
    let bytes = &quants[64 * g + 32 * half..][..32];
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// The low halves of bytes, or with `which` 1 the high ones.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(bytes: __m256i, which: usize) -> __m256i {
    let bytes = if which == 1 { _mm256_srli_epi16::<4>(bytes) } else { bytes };
    _mm256_and_si256(bytes, _mm256_set1_epi8(15))
}
