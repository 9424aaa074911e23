//! One tile times rows of activations, in plain Rust.

use super::activations::Panel;
use super::blocks::TILE_ROWS;
use super::formats::TileFormat;
use super::tiles::Tile;
use crate::simd::portable::f16_bits_to_f32;

/// Σ over blocks of scale · scale · Σ quant · quant, for sixteen rows of weights and `M` rows of activations.
#[inline(never)]
pub(super) fn tile<const M: usize>(
    format: TileFormat,
    tile: Tile<'_>,
    x: Panel<'_, M>,
) -> [[f32; TILE_ROWS]; M] {
    let mut out = [[0.0; TILE_ROWS]; M];
    let tiles = tile.quants.chunks_exact(format.quant_bytes() * TILE_ROWS).zip(tile.scales);
    for ((quants, scales), x) in tiles.zip(x.blocks()) {
        for (i, out) in out.iter_mut().enumerate() {
            let words = x.quants[i];
            let mut sums = [-format.offset() * x.sums[i]; TILE_ROWS];
            for (g, line) in quants.chunks_exact(4 * TILE_ROWS).enumerate() {
                match format {
                    TileFormat::Q8_0 => add(&mut sums, line, words[g], |q| q),
                    TileFormat::Q4_0 => {
                        add(&mut sums, line, words[g], |q| q & 15);
                        add(&mut sums, line, words[4 + g], |q| q >> 4);
                    }
                }
            }
            for (r, out) in out.iter_mut().enumerate() {
                *out += sums[r] as f32 * (f16_bits_to_f32(scales[r]) * x.scales[i]);
            }
        }
    }
    out
}

#[inline(always)]
fn add(sums: &mut [i32; TILE_ROWS], line: &[u8], x: i32, quant: impl Fn(u8) -> u8) {
    for (sum, four) in sums.iter_mut().zip(line.chunks_exact(4)) {
        for (q, x) in four.iter().zip(x.to_ne_bytes()) {
            *sum += i32::from(quant(*q)) * i32::from(x as i8);
        }
    }
}
