//! Rows of blocks in file order times rows of activations with AVX-512 VNNI. The blocks of sixteen rows are transposed in
//! registers, so that a vector holds the same four columns of sixteen rows and each lane sums the products of one row.

use core::arch::x86_64::*;

use super::activations::Panel;
use super::blocks::{TILE_ROWS, scale_bits};
use super::formats::{Marker, TileFormat};

/// Blocks of a row whose scales are collected at a time, one chunk ahead, because stored words take a while
/// to become readable as a vector.
const CHUNK: usize = 8;

/// Σ over blocks of scale · scale · Σ quant · quant, for sixteen contiguous rows of blocks in `group` and `M`
/// rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn rows<const M: usize, F: Marker<TileFormat>>(
    group: &[u8],
    x: Panel<'_, M>,
) -> [[f32; TILE_ROWS]; M] {
    let blocks = x.scales.len();
    let group = F::blocks(group);
    assert!(group.len() == TILE_ROWS * blocks && x.quants.len() == blocks && x.sums.len() == blocks);
    let offset = F::FORMAT.offset();
    let mut acc = [_mm512_setzero_ps(); M];
    let mut scales = [[[0; TILE_ROWS]; CHUNK]; 2];
    let mut now = 0;
    for (b, scales) in (0..blocks).zip(&mut scales[now]) {
        // SAFETY: fifteen rows of `blocks` blocks and `b` of one more are within the group.
        unsafe { collect_scales(group.as_ptr().add(b), blocks, scales) };
    }
    for start in (0..blocks).step_by(CHUNK) {
        for b in start..blocks.min(start + CHUNK) {
            if b + CHUNK < blocks {
                // SAFETY: as above.
                unsafe {
                    collect_scales(group.as_ptr().add(b + CHUNK), blocks, &mut scales[1 - now][b - start])
                };
            }
            // SAFETY: as above.
            let weights = unsafe { columns::<F>(group.as_ptr().add(b), blocks) };
            // SAFETY: sixteen f16, 32 bytes.
            let scales =
                _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(scales[now][b - start].as_ptr().cast()) });
            for (r, acc) in acc.iter_mut().enumerate() {
                // The rows of activations are independent, which hides the latency of each instruction.
                let mut sum = _mm512_set1_epi32(-offset * x.sums[b][r]);
                for (w, x) in weights.iter().zip(x.quants[b][r]) {
                    sum = _mm512_dpbusd_epi32(sum, *w, _mm512_set1_epi32(x));
                }
                let scale = _mm512_mul_ps(scales, _mm512_set1_ps(x.scales[b][r]));
                *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, *acc);
            }
        }
        now = 1 - now;
    }
    let mut out = [[0.0; TILE_ROWS]; M];
    for (out, acc) in out.iter_mut().zip(acc) {
        // SAFETY: sixteen f32.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), acc) };
    }
    out
}

/// Packs sixteen rows of blocks as a tile: the lines and the scales of each block.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
pub(super) fn pack<F: Marker<TileFormat>>(group: &[u8], quants: &mut [u8], scales: &mut [u8]) {
    let group = F::blocks(group);
    let blocks = group.len() / TILE_ROWS;
    let flip = _mm512_set1_epi8(if F::FORMAT == TileFormat::Q8_0 { i8::MIN } else { 0 });
    let scales = scales.as_chunks_mut::<{ 2 * TILE_ROWS }>().0;
    let tiles = quants.chunks_exact_mut((F::BYTES - 2) * TILE_ROWS).zip(scales);
    for (b, (quants, scales)) in (0..blocks).zip(tiles) {
        let mut bits = [0; TILE_ROWS];
        // SAFETY: fifteen rows of `blocks` blocks and `b` of one more are within the group.
        unsafe { collect_scales(group.as_ptr().add(b), blocks, &mut bits) };
        scales.copy_from_slice(bytemuck::cast_slice(&bits));
        for (sixteen, lines) in quants.chunks_exact_mut(16 * TILE_ROWS).enumerate() {
            // SAFETY: as above; for every sixteen bytes of lines, a block has sixteen bytes after its scale.
            let words = unsafe { transpose_16_bytes(group.as_ptr().add(b), blocks, 2 + 16 * sixteen) };
            for (line, words) in lines.chunks_exact_mut(64).zip(words) {
                // SAFETY: 64 bytes.
                unsafe { _mm512_storeu_si512(line.as_mut_ptr().cast(), _mm512_xor_si512(words, flip)) };
            }
        }
    }
}

/// Collects the scales of sixteen blocks.
///
/// # Safety
/// `first` must be readable, and so must fifteen more blocks, `stride` blocks apart.
#[inline(always)]
unsafe fn collect_scales<B: AsRef<[u8]>>(first: *const B, stride: usize, out: &mut [u16; TILE_ROWS]) {
    for (r, out) in out.iter_mut().enumerate() {
        // SAFETY: block r of sixteen, which the caller guarantees.
        *out = scale_bits(unsafe { &*first.add(r * stride) }.as_ref());
    }
}

/// The 32 columns of a block of sixteen rows, four per vector, with the zero point added.
///
/// # Safety
/// As for [`collect_scales`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn columns<F: Marker<TileFormat>>(first: *const F::Block, stride: usize) -> [__m512i; 8] {
    let mut out = [_mm512_setzero_si512(); 8];
    if F::FORMAT == TileFormat::Q8_0 {
        // SAFETY: a block has 32 bytes after its scale.
        let words = unsafe { transpose_32_bytes(first, stride, 2) };
        return words.map(|words| _mm512_xor_si512(words, _mm512_set1_epi8(i8::MIN)));
    }
    let mask = _mm512_set1_epi8(15);
    // SAFETY: a block has 16 bytes after its scale.
    for (g, words) in unsafe { transpose_16_bytes(first, stride, 2) }.into_iter().enumerate() {
        out[g] = _mm512_and_si512(words, mask);
        out[4 + g] = _mm512_and_si512(_mm512_srli_epi16::<4>(words), mask);
    }
    out
}

/// Transposes sixteen bytes, starting at byte `at`, of sixteen blocks: four columns per vector, block r in lane r.
///
/// # Safety
/// As for [`collect_scales`]; a block has `at` + 16 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn transpose_16_bytes<B>(first: *const B, stride: usize, at: usize) -> [__m512i; 4] {
    let mut v = [_mm512_setzero_si512(); 4];
    for (i, v) in v.iter_mut().enumerate() {
        // SAFETY: row r < 16, and the caller guarantees its sixteen bytes.
        let row = |r: usize| unsafe { _mm_loadu_si128(first.add(r * stride).cast::<u8>().add(at).cast()) };
        // Rows i, i + 4, i + 8, i + 12.
        let low = _mm512_mask_broadcast_i32x4(_mm512_castsi128_si512(row(i)), 0x00f0, row(i + 4));
        let third = _mm512_mask_broadcast_i32x4(low, 0x0f00, row(i + 8));
        *v = _mm512_mask_broadcast_i32x4(third, 0xf000, row(i + 12));
    }
    transpose_squares(v)
}

/// Like [`transpose_16_bytes`] for thirty-two bytes, with half the loads per byte.
///
/// # Safety
/// As for [`collect_scales`]; a block has `at` + 32 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn transpose_32_bytes<B>(first: *const B, stride: usize, at: usize) -> [__m512i; 8] {
    let mut v = [[_mm512_setzero_si512(); 4]; 2];
    for (half, v) in v.iter_mut().enumerate() {
        for (i, v) in v.iter_mut().enumerate() {
            // SAFETY: row r < 16, and the caller guarantees its 32 bytes.
            let row =
                |r: usize| unsafe { _mm256_loadu_si256(first.add(r * stride).cast::<u8>().add(at).cast()) };
            let low = _mm512_castsi256_si512(row(8 * half + i));
            *v = _mm512_inserti64x4::<1>(low, row(8 * half + i + 4));
        }
    }
    // Quarters: four rows, columns 4g..; the same rows, columns 16 + 4g..; then the same for the next four rows.
    let (a, b) = (transpose_squares(v[0]), transpose_squares(v[1]));
    let mut out = [_mm512_setzero_si512(); 8];
    for g in 0..4 {
        out[g] = _mm512_shuffle_i32x4::<0x88>(a[g], b[g]);
        out[4 + g] = _mm512_shuffle_i32x4::<0xdd>(a[g], b[g]);
    }
    out
}

/// Transposes the 4×4 square of words in each quarter.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose_squares(v: [__m512i; 4]) -> [__m512i; 4] {
    let (a, b) = (_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    let (c, d) = (_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    [
        _mm512_unpacklo_epi64(a, c),
        _mm512_unpackhi_epi64(a, c),
        _mm512_unpacklo_epi64(b, d),
        _mm512_unpackhi_epi64(b, d),
    ]
}
