//! A row of table codes times rows of activations with AVX2, which multiplies bytes in pairs to 16 bits.

use core::arch::x86_64::*;

use super::activations::Panel;
use super::formats::{LookupFormat, Marker, marker};
use super::one_row_avx2::lanes;
use super::panels::WORDS;
use crate::x86::prefetch;

/// The distance in bytes from a block to the lines that are prefetched.
const AHEAD: usize = 2048;

/// Blocks whose sums share a vector.
const FOUR: usize = 4;

/// The products of one row of weights with `M` rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn row<const M: usize>(format: LookupFormat, row: &[u8], x: Panel<'_, M>) -> [f32; M] {
    match format {
        LookupFormat::Iq4Nl => products::<marker::Iq4Nl, M>(row, x),
        LookupFormat::Mxfp4 => products::<marker::Mxfp4, M>(row, x),
    }
}

/// As [`row`], for one format.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn products<F: Marker<LookupFormat>, const M: usize>(row: &[u8], x: Panel<'_, M>) -> [f32; M] {
    let mut acc = [_mm256_setzero_ps(); M];
    let (blocks, rest) = F::blocks(row).as_chunks();
    let (quants, last) = x.quants.as_chunks();
    let numbers = x.scales.as_chunks().0.iter().zip(x.sums.as_chunks().0);
    for (blocks, (quants, (scales, sums))) in blocks.iter().zip(quants.iter().zip(numbers)) {
        // The hardware prefetcher stops at page boundaries.
        for line in [0, 64] {
            prefetch::<_MM_HINT_T0, _>(blocks.as_ptr().cast::<u8>().wrapping_add(AHEAD + line));
        }
        acc = add_four::<F, M>(blocks, (quants, scales, sums), acc);
    }
    if !rest.is_empty() {
        // Missing blocks have scales of zero.
        let mut blocks = [F::ZEROS; FOUR];
        let (mut quants, mut scales, mut sums) = ([[[0; WORDS]; M]; FOUR], [[0.0; M]; FOUR], [[0; M]; FOUR]);
        let first = x.quants.len() - last.len();
        for (b, block) in rest.iter().enumerate().take(last.len()) {
            (blocks[b], quants[b], scales[b]) = (*block, last[b], x.scales[first + b]);
            sums[b] = x.sums[first + b];
        }
        acc = add_four::<F, M>(&blocks, (&quants, &scales, &sums), acc);
    }
    acc.map(|acc| lanes(acc))
}

/// Quants, scales and sums of four blocks of `M` rows of activations.
type Four<'a, const M: usize> = (&'a [[[i32; WORDS]; M]; FOUR], &'a [[f32; M]; FOUR], &'a [[i32; M]; FOUR]);

/// Adds the products of four blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_four<F: Marker<LookupFormat>, const M: usize>(
    blocks: &[F::Block; FOUR],
    (quants, scales, sums): Four<'_, M>,
    mut acc: [__m256; M],
) -> [__m256; M] {
    // SAFETY: 16 bytes.
    let levels = unsafe { _mm_loadu_si128(F::FORMAT.levels().as_ptr().cast()) };
    // An offset makes small levels unsigned; it is taken off again through the sum of the quants.
    let offset = if F::FORMAT == LookupFormat::Mxfp4 { 12 } else { 0 };
    let levels = _mm256_broadcastsi128_si256(_mm_add_epi8(levels, _mm_set1_epi8(offset)));
    let blocks = blocks.each_ref().map(|block| block.as_ref());
    let weights = blocks.map(|block| weights(levels, block));
    let factors = factors::<F>(blocks);
    for (i, acc) in acc.iter_mut().enumerate() {
        let products = |b: usize| {
            // SAFETY: 32 bytes.
            let quants = unsafe { _mm256_loadu_si256(quants[b][i].as_ptr().cast()) };
            let pairs = if offset > 0 {
                _mm256_maddubs_epi16(weights[b], quants)
            } else {
                // At most 127 · 127 · 2 in magnitude.
                _mm256_maddubs_epi16(_mm256_abs_epi8(weights[b]), _mm256_sign_epi8(quants, weights[b]))
            };
            _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
        };
        let both = |b: usize| _mm256_hadd_epi32(products(b), products(b + 1));
        let taken = _mm_setr_epi32(sums[0][i], sums[1][i], sums[2][i], sums[3][i]);
        let taken = _mm_mullo_epi32(taken, _mm_set1_epi32(offset.into()));
        let sum = _mm256_sub_epi32(_mm256_hadd_epi32(both(0), both(2)), _mm256_zextsi128_si256(taken));
        let scales = _mm_setr_ps(scales[0][i], scales[1][i], scales[2][i], scales[3][i]);
        let factors = _mm_mul_ps(factors, scales);
        *acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_set_m128(factors, factors), *acc);
    }
    acc
}

/// The factors of four blocks' levels.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn factors<F: Marker<LookupFormat>>(blocks: [&[u8]; FOUR]) -> __m128 {
    match F::FORMAT {
        LookupFormat::Iq4Nl => {
            let [a, b, c, d] = blocks.map(|block| i16::from_le_bytes([block[0], block[1]]));
            _mm_cvtph_ps(_mm_setr_epi16(a, b, c, d, 0, 0, 0, 0))
        }
        LookupFormat::Mxfp4 => {
            let [a, b, c, d] = blocks.map(|block| block[0] as i8);
            let exponents = _mm_cvtepu8_epi32(_mm_setr_epi8(a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
            // Half of 2^(exponent − 127), of which exponents 0 and 1 are subnormal.
            let normal = _mm_slli_epi32::<23>(_mm_sub_epi32(exponents, _mm_set1_epi32(1)));
            let subnormal = _mm_sllv_epi32(_mm_set1_epi32(0x0020_0000), exponents);
            let is_normal = _mm_cmpgt_epi32(exponents, _mm_set1_epi32(1));
            _mm_castsi128_ps(_mm_blendv_epi8(subnormal, normal, is_normal))
        }
    }
}

/// The levels of the sixteen bytes of codes that end a block.
#[inline]
#[target_feature(enable = "avx2")]
fn weights(levels: __m256i, block: &[u8]) -> __m256i {
    let Some(codes) = block.last_chunk::<16>() else { return levels };
    // SAFETY: 16 bytes.
    let codes = unsafe { _mm_loadu_si128(codes.as_ptr().cast()) };
    let codes = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(codes), _mm_srli_epi16::<4>(codes));
    _mm256_shuffle_epi8(levels, _mm256_and_si256(codes, _mm256_set1_epi8(15)))
}
