//! A tile by rows of activations, in plain Rust.

use super::activations::Row;
use super::blocks::{BLOCK, Format};
use super::tiles::{TILE_ROWS, Tile};
use crate::simd::portable::f16_bits_to_f32;

/// Σ over blocks of scale · scale · Σ quant · quant, for sixteen rows of weights and `M` of activations.
pub(super) fn tile<const M: usize>(format: Format, tile: Tile<'_>, x: [Row<'_>; M]) -> [[f32; TILE_ROWS]; M] {
    let mut out = [[0.0; TILE_ROWS]; M];
    for (out, x) in out.iter_mut().zip(x) {
        let blocks = tile.quants.chunks_exact(format.quant_bytes() * TILE_ROWS).zip(tile.scales);
        for (b, (quants, scales)) in blocks.enumerate() {
            let x_quants = &x.quants[b * BLOCK..][..BLOCK];
            let mut sums = [-format.offset() * x.sums[b]; TILE_ROWS];
            for (g, line) in quants.chunks_exact(4 * TILE_ROWS).enumerate() {
                match format {
                    Format::Q8_0 => add(&mut sums, line, &x_quants[4 * g..][..4], |q| q),
                    Format::Q4_0 => {
                        add(&mut sums, line, &x_quants[4 * g..][..4], |q| q & 15);
                        add(&mut sums, line, &x_quants[16 + 4 * g..][..4], |q| q >> 4);
                    }
                }
            }
            for (r, out) in out.iter_mut().enumerate() {
                *out += sums[r] as f32 * (f16_bits_to_f32(scales[r]) * x.scales[b]);
            }
        }
    }
    out
}

#[inline(always)]
fn add(sums: &mut [i32; TILE_ROWS], line: &[u8], x: &[i8], quant: impl Fn(u8) -> u8) {
    for (sum, four) in sums.iter_mut().zip(line.chunks_exact(4)) {
        for (q, x) in four.iter().zip(x) {
            *sum += i32::from(quant(*q)) * i32::from(*x);
        }
    }
}
