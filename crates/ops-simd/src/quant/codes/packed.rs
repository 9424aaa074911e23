//! Weights that were packed in tiles, as codes: matrix units multiply these faster than vectors multiply tiles.

use core::arch::x86_64::*;
use std::ops::Range;

use super::super::blocks::Format;
use super::super::tiles::{TILE_ROWS, Tile};
use super::Step;
use super::words::Words;

/// Unpacks these blocks of a tile, with an offset of 128.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) fn unpack(format: Format, tile: Tile<'_>, blocks: Range<usize>, steps: &mut [Step]) {
    let bytes = format.quant_bytes() * TILE_ROWS;
    let quants = tile.quants[blocks.start * bytes..].chunks_exact(bytes);
    for ((step, quants), scales) in steps.iter_mut().zip(quants).zip(&tile.scales[blocks]) {
        let lines = quants.chunks_exact(64).map(bytemuck::pod_read_unaligned::<Words>);
        match format {
            Format::Q8_0 => step.codes.iter_mut().zip(lines).for_each(|(codes, line)| *codes = line),
            Format::Q4_0 => {
                // Halves of bytes have an offset of 8.
                let codes = |line: Words, shift: u32| {
                    Words(line.0.map(|word| (word >> shift & 0x0f0f_0f0f) + 120 * 0x0101_0101))
                };
                for (g, line) in lines.enumerate() {
                    (step.codes[g], step.codes[4 + g]) = (codes(line, 0), codes(line, 4));
                }
            }
        }
        // SAFETY: sixteen f16, and sixteen f32.
        unsafe {
            let scales = _mm512_cvtph_ps(_mm256_loadu_si256(scales.as_ptr().cast()));
            _mm512_storeu_ps(step.scale.as_mut_ptr(), scales);
        }
    }
}
