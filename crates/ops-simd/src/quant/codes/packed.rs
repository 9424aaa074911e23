//! Weights packed in tiles, converted to codes, which matrix units and AVX2 multiply faster.

use core::arch::x86_64::*;
use std::ops::Range;

use super::super::blocks::TILE_ROWS;
use super::super::formats::TileFormat;
use super::super::tiles::Tile;
use super::Step;
use super::words::Words;

/// Unpacks these blocks of a tile, with an offset of 128.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) fn unpack_avx512(format: TileFormat, tile: Tile<'_>, blocks: Range<usize>, steps: &mut [Step]) {
    unpack(format, 120, tile, blocks.clone(), steps);
    for (step, scales) in steps.iter_mut().zip(&tile.scales[blocks]) {
        // SAFETY: sixteen f16, and sixteen f32.
        unsafe {
            let scales = _mm512_cvtph_ps(_mm256_loadu_si256(scales.as_ptr().cast()));
            _mm512_storeu_ps(step.scale.as_mut_ptr(), scales);
        }
    }
}

/// Unpacks these blocks of a tile, with the offset of the format.
#[target_feature(enable = "avx2,f16c")]
pub(super) fn unpack_avx2(format: TileFormat, tile: Tile<'_>, blocks: Range<usize>, steps: &mut [Step]) {
    unpack(format, 0, tile, blocks.clone(), steps);
    for (step, scales) in steps.iter_mut().zip(&tile.scales[blocks]) {
        for (to, scales) in step.scale.as_chunks_mut::<8>().0.iter_mut().zip(scales.as_chunks::<8>().0) {
            // SAFETY: eight f16, and eight f32.
            unsafe {
                let scales = _mm256_cvtph_ps(_mm_loadu_si128(scales.as_ptr().cast()));
                _mm256_storeu_ps(to.as_mut_ptr(), scales);
            }
        }
    }
}

/// The codes of these blocks; `more` is added to those of four bits.
#[inline(always)]
fn unpack(format: TileFormat, more: u32, tile: Tile<'_>, blocks: Range<usize>, steps: &mut [Step]) {
    let bytes = format.quant_bytes() * TILE_ROWS;
    for (step, quants) in steps.iter_mut().zip(tile.quants[blocks.start * bytes..].chunks_exact(bytes)) {
        let lines = quants.chunks_exact(64).map(bytemuck::pod_read_unaligned::<Words>);
        match format {
            TileFormat::Q8_0 => step.codes.iter_mut().zip(lines).for_each(|(codes, line)| *codes = line),
            TileFormat::Q4_0 => {
                let codes = |line: Words, shift: u32| {
                    Words(line.0.map(|word| (word >> shift & 0x0f0f_0f0f) + more * 0x0101_0101))
                };
                for (g, line) in lines.enumerate() {
                    (step.codes[g], step.codes[4 + g]) = (codes(line, 0), codes(line, 4));
                }
            }
        }
    }
}
