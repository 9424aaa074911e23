//! One tile times rows of activations with AVX-VNNI, on processors that have it and not AVX-512. The bits are those of AVX2.

use core::arch::x86_64::*;

use super::activations::Panel;
use super::blocks::TILE_ROWS;
use super::codes::avx_vnni::ROWS;
use super::codes::avx2_dot::{Halves, store};
use super::formats::TileFormat;
use super::tiles::Tile;

/// Σ over blocks of scale · scale · Σ quant · quant, for sixteen rows of weights and `M` rows of activations.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) fn tile<const M: usize>(
    format: TileFormat,
    tile: Tile<'_>,
    x: Panel<'_, M>,
) -> [[f32; TILE_ROWS]; M] {
    let mut out = [[0.0; TILE_ROWS]; M];
    for (part, out) in out.chunks_mut(ROWS).enumerate() {
        let sums = match format {
            TileFormat::Q8_0 => some_rows::<M, true>(tile, x, part * ROWS),
            TileFormat::Q4_0 => some_rows::<M, false>(tile, x, part * ROWS),
        };
        store(out, sums);
    }
    out
}

/// Up to [`ROWS`] rows of activations from row `first` of a panel on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn some_rows<const M: usize, const WIDE: bool>(
    tile: Tile<'_>,
    x: Panel<'_, M>,
    first: usize,
) -> [Halves<__m256>; ROWS] {
    let format = if WIDE { TileFormat::Q8_0 } else { TileFormat::Q4_0 };
    let mut acc = [[_mm256_setzero_ps(); 2]; ROWS];
    // The compiler knows how many rows there are, and omits the others.
    let rows = M.min(ROWS);
    let tiles = tile.quants.chunks_exact(format.quant_bytes() * TILE_ROWS).zip(tile.scales);
    for ((quants, scales), x) in tiles.zip(x.blocks()) {
        let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
        for (sums, x) in sums.iter_mut().zip(&x.sums[first..]).take(rows) {
            *sums = [_mm256_set1_epi32(-format.offset() * x); 2];
        }
        for g in 0..8 {
            let codes = if WIDE { line(quants, g) } else { nibbles(line(quants, g % 4), g / 4) };
            for (sums, x) in sums.iter_mut().zip(&x.quants[first..]).take(rows) {
                let quants = _mm256_set1_epi32(x[g]);
                *sums = [0, 1].map(|h| _mm256_dpbusd_avx_epi32(sums[h], codes[h], quants));
            }
        }
        // SAFETY: eight of sixteen f16.
        let half = |at: usize| unsafe { _mm_loadu_si128(scales[at..][..8].as_ptr().cast()) };
        let scales = [_mm256_cvtph_ps(half(0)), _mm256_cvtph_ps(half(8))];
        for ((acc, sums), x) in acc.iter_mut().zip(sums).zip(&x.scales[first..]).take(rows) {
            for h in 0..2 {
                let scale = _mm256_mul_ps(scales[h], _mm256_set1_ps(*x));
                acc[h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[h]), scale, acc[h]);
            }
        }
    }
    acc
}

/// One line of the tile.
#[inline]
#[target_feature(enable = "avx2")]
fn line(quants: &[u8], g: usize) -> Halves<__m256i> {
    // SAFETY: 32 of 64 bytes.
    [0, 32].map(|at| unsafe { _mm256_loadu_si256(quants[64 * g + at..][..32].as_ptr().cast()) })
}

/// The low halves of bytes, or the high ones.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles(bytes: Halves<__m256i>, high: usize) -> Halves<__m256i> {
    let mask = _mm256_set1_epi8(15);
    bytes.map(|v| _mm256_and_si256(if high == 1 { _mm256_srli_epi16::<4>(v) } else { v }, mask))
}

#[cfg(test)]
mod tests {
    use super::super::activations::Activations;
    use super::super::dot_avx2;
    use super::super::tiles::Tiles;
    use super::*;
    use crate::isa::{Isa, Level};

    fn check<const M: usize>(format: TileFormat) {
        let (blocks, mut state) = (5, 1u32);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 20
        };
        // Scales of ordinary size.
        let byte = |i: usize, byte: u32| if i % format.block_bytes() == 1 { byte & 0x3b } else { byte };
        let raw: Vec<u8> = (0..16 * blocks * format.block_bytes()).map(|i| byte(i, next()) as u8).collect();
        let tiles = Tiles::new(format, &raw, 16, blocks * 32).unwrap();
        let x: Vec<f32> = (0..M * blocks * 32).map(|i| ((i * i) % 101) as f32 - 49.0).collect();
        let x = Activations::new(Isa::best(), &x, blocks * 32).unwrap();
        // SAFETY: the caller detected the features.
        let [old, new] = unsafe {
            [
                dot_avx2::tile(format, tiles.tile(0), x.panel::<M>(0)),
                tile(format, tiles.tile(0), x.panel::<M>(0)),
            ]
        };
        let bits = |sums: [[f32; TILE_ROWS]; M]| sums.map(|row| row.map(f32::to_bits));
        assert!(old.iter().flatten().all(|y| y.is_finite() && *y != 0.0), "{format:?} {M}");
        assert_eq!(bits(old), bits(new), "{format:?} {M}");
    }

    #[test]
    fn bits_are_those_of_avx2() {
        let isa = Isa::available().into_iter().find(|isa| isa.level() == Level::Avx2);
        if isa.is_some_and(Isa::avx_vnni) {
            for format in [TileFormat::Q8_0, TileFormat::Q4_0] {
                check::<1>(format);
                check::<2>(format);
                check::<4>(format);
                check::<8>(format);
            }
        }
    }
}
