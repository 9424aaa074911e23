//! Rows of table codes in file order times one row of activations, with AVX-512 VNNI. A vector holds four blocks; the factors of
//! sixteen blocks are computed at a time.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::activations::Activations;
use super::blocks::BLOCK;
use super::formats::{LookupFormat, Marker};
use super::panels::WORDS;
use crate::scratch::Scratch;
use crate::x86::prefetch;

/// Bytes ahead of a block that are prefetched to the L2 cache, well beyond the rows being read. The
/// hardware's prefetcher stops at page boundaries.
const AHEAD: usize = 8192;

/// Vectors of four blocks whose factors are computed together.
const VECTORS: usize = 4;
/// Blocks of these vectors.
const BLOCKS: usize = 4 * VECTORS;

/// The activations that sixteen blocks are multiplied by.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Prepared {
    /// For each vector: the quants of the low halves of its four blocks' codes, then those of the high halves.
    quants: [[[i32; 16]; 2]; VECTORS],
    /// The scale of block `j` of vector `v` is number `4 j + v`.
    scales: [f32; BLOCKS],
    /// Takes off the levels' offset, in the same order.
    offsets: [f32; BLOCKS],
}

/// The offset that makes the levels unsigned.
fn offset(format: LookupFormat) -> u8 {
    match format {
        LookupFormat::Iq4Nl => 128,
        LookupFormat::Mxfp4 => 12,
    }
}

/// Arranges all rows of the activations, one after the other, for weights in this format.
pub(super) fn prepare(format: LookupFormat, x: &Activations) -> Scratch<Prepared> {
    let offset = f32::from(offset(format));
    let blocks = x.k() / BLOCK;
    let groups = blocks.div_ceil(BLOCKS);
    let mut out = Scratch::<Prepared>::new(x.rows() * groups);
    out.fill(bytemuck::Zeroable::zeroed());
    for (i, out) in out.chunks_exact_mut(groups.max(1)).enumerate() {
        for b in 0..blocks {
            let (words, scale, offsets) = x.step(i, b);
            let (out, v, j) = (&mut out[b / BLOCKS], b % BLOCKS / 4, b % 4);
            for (half, words) in out.quants[v].iter_mut().zip(words.chunks_exact(WORDS / 2)) {
                half[4 * j..][..4].copy_from_slice(words);
            }
            (out.scales[4 * j + v], out.offsets[4 * j + v]) = (scale, offset * offsets.minus);
        }
    }
    out
}

/// The products of `R` rows of weights with a row of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn products<F: Marker<LookupFormat>, const R: usize>(
    rows: [&[u8]; R],
    x: &[Prepared],
) -> [f32; R] {
    let levels = F::FORMAT.levels().map(|level| offset(F::FORMAT).wrapping_add_signed(level));
    // SAFETY: 16 bytes.
    let levels = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(levels.as_ptr().cast()) });
    let mut acc = [[_mm512_setzero_ps(); 3]; R];
    let bytes = F::BYTES * BLOCKS;
    for (g, x) in x.iter().enumerate() {
        for (acc, row) in acc.iter_mut().zip(rows) {
            let Some(rest) = row.get(g * bytes..) else { continue };
            for line in 0..bytes.div_ceil(64) {
                prefetch::<_MM_HINT_T1, _>(rest.as_ptr().wrapping_add(AHEAD + 64 * line));
            }
            if let Some(blocks) = rest.get(..bytes) {
                add::<F>(acc, levels, blocks, x);
            } else {
                // Blocks that do not exist have scales of zero.
                let mut last = [0; LookupFormat::Iq4Nl.block_bytes() * BLOCKS];
                last[..rest.len()].copy_from_slice(rest);
                add::<F>(acc, levels, &last[..bytes], x);
            }
        }
    }
    acc.map(|[a, b, c]| _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), c)))
}

/// Adds the products of sixteen blocks: those of even vectors to the first sum, of odd ones to the second, and the offsets to the
/// third.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn add<F: Marker<LookupFormat>>(acc: &mut [__m512; 3], levels: __m512i, blocks: &[u8], x: &Prepared) {
    let vectors = [0, 1, 2, 3].map(|v| load(&blocks[4 * v * F::BYTES..]));
    let factors = factors::<F>(vectors);
    // SAFETY: 64 bytes each.
    let (scales, offsets) =
        unsafe { (_mm512_load_ps(x.scales.as_ptr()), _mm512_load_ps(x.offsets.as_ptr())) };
    acc[2] = _mm512_fmadd_ps(factors, offsets, acc[2]);
    let scales = _mm512_mul_ps(factors, scales);
    // Number `v` of each quarter, in all lanes of the quarter.
    let spread = [
        _mm512_permute_ps::<0x00>(scales),
        _mm512_permute_ps::<0x55>(scales),
        _mm512_permute_ps::<0xaa>(scales),
        _mm512_permute_ps::<0xff>(scales),
    ];
    let mask = _mm512_set1_epi8(15);
    for v in 0..VECTORS {
        // SAFETY: 64 bytes each.
        let quants = [0, 1].map(|half| unsafe { _mm512_load_si512(x.quants[v][half].as_ptr().cast()) });
        // The rest of the four blocks is in the last 64 bytes.
        let codes = codes::<F>(vectors[v], load(&blocks[4 * (v + 1) * F::BYTES - 64..]));
        let low = _mm512_shuffle_epi8(levels, _mm512_and_si512(codes, mask));
        let high = _mm512_shuffle_epi8(levels, _mm512_and_si512(_mm512_srli_epi16::<4>(codes), mask));
        let sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, quants[0]);
        let sums = _mm512_dpbusd_epi32(sums, high, quants[1]);
        acc[v % 2] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), spread[v], acc[v % 2]);
    }
}

/// The first 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8]) -> __m512i {
    let bytes = &bytes[..64];
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// For each byte of a vector, the byte that it comes from in the quarter of the vector at the same place, or 0xff.
#[repr(align(64))]
struct Places([u8; 64]);

/// The bytes of blocks of `size` bytes from byte `from` on, with one block in each quarter of a vector that
/// begins `skipped` bytes after the first block. Bytes that are not in the quarter, or for which there is no
/// place, are left out.
const fn places(size: usize, from: usize, skipped: usize, count: usize, every: usize) -> Places {
    let (mut out, mut i) = ([0xff; 64], 0);
    while i < 64 {
        let (quarter, at) = (i / 16, i % 16 % every);
        let byte = (size - 16) * quarter + from + at;
        if at < count && byte >= skipped && byte < skipped + 16 {
            out[i] = (byte - skipped) as u8;
        }
        i += 1;
    }
    Places(out)
}

/// The bytes of `from` at these places, and zeros where there are none.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pick(from: __m512i, places: &Places) -> __m512i {
    // SAFETY: 64 bytes, aligned.
    _mm512_shuffle_epi8(from, unsafe { _mm512_load_si512(places.0.as_ptr().cast()) })
}

/// The codes of four blocks, one in each quarter, from their first and their last 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn codes<F: Marker<LookupFormat>>(first: __m512i, last: __m512i) -> __m512i {
    struct Of<F>(PhantomData<F>);
    impl<F: Marker<LookupFormat>> Of<F> {
        const FIRST: Places = places(F::BYTES, F::BYTES - 16, 0, 16, 16);
        const SKIPPED: usize = 4 * F::BYTES - 64;
        const LAST: Places = {
            let (mut last, mut i) = (places(F::BYTES, F::BYTES - 16, Self::SKIPPED, 16, 16), 0);
            while i < 64 {
                // Once is enough.
                if Self::FIRST.0[i] != 0xff {
                    last.0[i] = 0xff;
                }
                i += 1;
            }
            last
        };
    }
    _mm512_or_si512(pick(first, const { &Of::<F>::FIRST }), pick(last, const { &Of::<F>::LAST }))
}

/// The factors of sixteen blocks, in the order of [`Prepared::scales`], from the first 64 bytes of each vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,f16c")]
fn factors<F: Marker<LookupFormat>>(vectors: [__m512i; VECTORS]) -> __m512 {
    struct Of<F>(PhantomData<F>);
    impl<F: Marker<LookupFormat>> Of<F> {
        const HEADS: Places = places(F::BYTES, 0, 0, F::BYTES - 16, 4);
    }
    // The first bytes of a block are in all words of its quarter.
    let heads = vectors.map(|v| pick(v, const { &Of::<F>::HEADS }));
    let low = _mm512_mask_mov_epi32(heads[0], 0x2222, heads[1]);
    let high = _mm512_mask_mov_epi32(heads[2], 0x8888, heads[3]);
    let bits = _mm512_mask_mov_epi32(low, 0xcccc, high);
    if F::FORMAT == LookupFormat::Mxfp4 {
        // Half of 2^(exponent − 127). Exponents 0 and 1 give subnormal numbers, for which the second line is higher.
        let normal = _mm512_sub_epi32(_mm512_slli_epi32::<23>(bits), _mm512_set1_epi32(1 << 23));
        let subnormal = _mm512_add_epi32(_mm512_slli_epi32::<21>(bits), _mm512_set1_epi32(1 << 21));
        _mm512_castsi512_ps(_mm512_max_epi32(normal, subnormal))
    } else {
        _mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits))
    }
}
