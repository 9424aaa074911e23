//! Rows of super-blocks in file order times one row of activations, with AVX2.

use core::arch::x86_64::*;

use super::formats::{LEVELS, Marker, STEPS, SuperFormat};
use super::one_row::{Prepared, even_first};
use crate::x86::prefetch;

/// Super-blocks whose scales are unpacked before their codes. They pass through memory, from which a broadcast costs no vector
/// operation.
const CHUNK: usize = 8;

/// How many bytes ahead of a block every line is prefetched. The scales of a chunk are read before its codes, an order that the hardware's
/// prefetcher does not follow.
const AHEAD: usize = 2048;

/// What the sums of a super-block's steps, or of their halves, are multiplied by.
type Factors = [f32; 16];

/// The product of a row of weights with a row of activations.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn product<F: Marker<SuperFormat>>(row: &[u8], x: &[Prepared]) -> f32 {
    let (mut acc, mut offsets) = ([_mm256_setzero_ps(); 4], _mm256_setzero_ps());
    for (blocks, x) in F::blocks(row).chunks(CHUNK).zip(x.chunks(CHUNK)) {
        let mut factors = [[0.0; 16]; CHUNK];
        for ((block, x), factors) in blocks.iter().zip(x).zip(&mut factors) {
            let block = block.as_ref();
            for line in (0..F::BYTES).step_by(64) {
                prefetch::<_MM_HINT_T0, _>(block.as_ptr().wrapping_add(AHEAD + line));
            }
            offsets = match F::FORMAT {
                SuperFormat::Q4K | SuperFormat::Q5K => six_bit_scales(block, x, factors, offsets),
                SuperFormat::Q6K => q6_k_scales(block, x, factors, offsets),
                SuperFormat::Iq4Xs => {
                    iq4_xs_scales(block, x, factors);
                    offsets
                }
            };
        }
        for ((block, x), factors) in blocks.iter().zip(x).zip(&factors) {
            let block = block.as_ref();
            match F::FORMAT {
                SuperFormat::Q4K => q4_k(&mut acc, block, x, factors),
                SuperFormat::Q5K => q5_k(&mut acc, block, x, factors),
                SuperFormat::Q6K => q6_k(&mut acc, block, x, factors),
                SuperFormat::Iq4Xs => iq4_xs(&mut acc, block, x, factors),
            }
        }
    }
    let [a, b, c, d] = acc;
    lanes(_mm256_add_ps(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)), offsets))
}

/// Sums of four products of bytes each.
#[inline]
#[target_feature(enable = "avx2")]
fn dot(codes: __m256i, quants: __m256i) -> __m256i {
    _mm256_madd_epi16(_mm256_maddubs_epi16(codes, quants), _mm256_set1_epi16(1))
}

/// 32 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
fn load(block: &[u8], at: usize) -> __m256i {
    let bytes = &block[at..][..32];
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// 16 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_half(block: &[u8], at: usize) -> __m128i {
    let bytes = &block[at..][..16];
    // SAFETY: 16 bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Eight floats from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
fn floats(from: &[f32; 16], at: usize) -> __m256 {
    let from = &from[at..][..8];
    // SAFETY: eight f32.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut Factors, at: usize, v: __m256) {
    let to = &mut to[at..][..8];
    // SAFETY: eight f32.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) };
}

/// The f16 at byte `at`, in all lanes.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn unit(block: &[u8], at: usize) -> __m256 {
    _mm256_cvtph_ps(_mm_set1_epi16(i16::from_le_bytes([block[at], block[at + 1]])))
}

/// The eight scales and the eight minima of q4_k and q5_k, as bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn six_bit_numbers(head: __m128i) -> __m128i {
    // Words of four numbers: scales, scales, minima, minima. The upper two bits of the second and the fourth
    // word are in the first and the third.
    let low = _mm_srlv_epi32(_mm_shuffle_epi32::<0b11_10_11_01>(head), _mm_setr_epi32(0, 0, 0, 4));
    let high = _mm_srli_epi32::<2>(_mm_shuffle_epi32::<0b10_00_01_00>(head));
    let (six, four, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x3030_3030);
    let low = _mm_and_si128(low, _mm_setr_epi32(six, four, six, four));
    _mm_or_si128(low, _mm_and_si128(high, _mm_setr_epi32(0, two, 0, two)))
}

/// The factors of q4_k and q5_k: two f16 units and twelve bytes of six-bit numbers. Returns `offsets` with those of the minima.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn six_bit_scales(block: &[u8], x: &Prepared, factors: &mut Factors, offsets: __m256) -> __m256 {
    let numbers = six_bit_numbers(load_half(block, 0));
    let wide = |bytes: __m128i| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    let scales = _mm256_mul_ps(wide(numbers), unit(block, 0));
    let minima = _mm256_mul_ps(wide(_mm_unpackhi_epi64(numbers, numbers)), unit(block, 2));
    store(factors, 0, _mm256_mul_ps(scales, floats(&x.scales, 0)));
    _mm256_fmadd_ps(minima, floats(&x.scales, STEPS), offsets)
}

/// The factors of q6_k, one for each half of a step.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn q6_k_scales(block: &[u8], x: &Prepared, factors: &mut Factors, mut offsets: __m256) -> __m256 {
    let (numbers, unit) = (load_half(block, 192), unit(block, 208));
    for (at, numbers) in [(0, numbers), (8, _mm_unpackhi_epi64(numbers, numbers))] {
        let scales = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(numbers)), unit);
        store(factors, at, _mm256_mul_ps(scales, floats(&x.scales, at)));
        offsets = _mm256_fmadd_ps(scales, floats(&x.offsets, at), offsets);
    }
    offsets
}

/// The factors of iq4_xs: an f16 unit, eight times two upper bits, then eight times four lower bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn iq4_xs_scales(block: &[u8], x: &Prepared, factors: &mut Factors) {
    let scales = _mm256_mul_ps(iq4_xs_numbers(block), unit(block, 0));
    store(factors, 0, _mm256_mul_ps(scales, floats(&x.scales, 0)));
}

/// The integer scales of iq4_xs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn iq4_xs_numbers(block: &[u8]) -> __m256 {
    let word = |at: usize| i32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    let low = _mm256_srlv_epi32(_mm256_set1_epi32(word(4)), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    // From bit 16 on, to bits 4 and 5.
    let shifts = _mm256_setr_epi32(12, 14, 16, 18, 20, 22, 24, 26);
    let high = _mm256_srlv_epi32(_mm256_set1_epi32(word(0)), shifts);
    let numbers = _mm256_or_si256(
        _mm256_and_si256(low, _mm256_set1_epi32(15)),
        _mm256_and_si256(high, _mm256_set1_epi32(48)),
    );
    _mm256_cvtepi32_ps(_mm256_sub_epi32(numbers, _mm256_set1_epi32(32)))
}

/// The low and the high halves of bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles(bytes: __m256i) -> [__m256i; 2] {
    let mask = _mm256_set1_epi8(15);
    [_mm256_and_si256(bytes, mask), _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), mask)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn quants(x: &Prepared, v: usize) -> __m256i {
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(x.quants[v].as_ptr().cast()) }
}

/// Adds the products of step `s` of q4_k or q5_k.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn add(acc: &mut [__m256; 4], codes: __m256i, x: &Prepared, s: usize, factors: &Factors) {
    let sums = dot(codes, quants(x, even_first(s)));
    acc[s % 4] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(factors[s]), acc[s % 4]);
}

/// Two factors, in four lanes each.
#[inline]
#[target_feature(enable = "avx2")]
fn two(factors: &Factors, i: usize) -> __m256 {
    let pair: [f32; 2] = [factors[2 * i], factors[2 * i + 1]];
    let both = _mm256_castpd_ps(_mm256_set1_pd(bytemuck::cast(pair)));
    _mm256_permutevar_ps(both, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn q4_k(acc: &mut [__m256; 4], block: &[u8], x: &Prepared, factors: &Factors) {
    for pair in 0..4 {
        for (i, codes) in nibbles(load(block, 16 + 32 * pair)).into_iter().enumerate() {
            add(acc, codes, x, 2 * pair + i, factors);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn q5_k(acc: &mut [__m256; 4], block: &[u8], x: &Prepared, factors: &Factors) {
    let high = load(block, 16);
    // Bit s, for step s, as bit 4.
    let highs = [
        _mm256_slli_epi16::<4>(high),
        _mm256_slli_epi16::<3>(high),
        _mm256_slli_epi16::<2>(high),
        _mm256_slli_epi16::<1>(high),
        high,
        _mm256_srli_epi16::<1>(high),
        _mm256_srli_epi16::<2>(high),
        _mm256_srli_epi16::<3>(high),
    ];
    for pair in 0..4 {
        for (i, codes) in nibbles(load(block, 48 + 32 * pair)).into_iter().enumerate() {
            let s = 2 * pair + i;
            let codes = _mm256_or_si256(codes, _mm256_and_si256(highs[s], _mm256_set1_epi8(16)));
            add(acc, codes, x, s, factors);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn q6_k(acc: &mut [__m256; 4], block: &[u8], x: &Prepared, factors: &Factors) {
    for half in 0..2 {
        let high = load(block, 128 + 32 * half);
        // Two bits for each of four steps, as bits 4 and 5.
        let highs =
            [_mm256_slli_epi16::<4>(high), _mm256_slli_epi16::<2>(high), high, _mm256_srli_epi16::<2>(high)];
        for j in 0..2 {
            for (i, codes) in nibbles(load(block, 64 * half + 32 * j)).into_iter().enumerate() {
                let (within, mask) = (2 * i + j, _mm256_set1_epi8(48));
                let s = 4 * half + within;
                let codes = _mm256_or_si256(codes, _mm256_and_si256(highs[within], mask));
                let sums = _mm256_cvtepi32_ps(dot(codes, quants(x, s)));
                acc[within] = _mm256_fmadd_ps(sums, two(factors, s), acc[within]);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn iq4_xs(acc: &mut [__m256; 4], block: &[u8], x: &Prepared, factors: &Factors) {
    let levels = _mm256_broadcastsi128_si256(load_half(&LEVELS, 0));
    // The levels themselves, without the offset that makes them unsigned.
    let levels = _mm256_xor_si256(levels, _mm256_set1_epi8(i8::MIN));
    for (pair, acc) in acc.iter_mut().enumerate() {
        let halves = nibbles(load(block, 8 + 32 * pair)).map(|codes| _mm256_shuffle_epi8(levels, codes));
        let [first, second] = [0, 1].map(|h| {
            let (level, quants) = (halves[h], quants(x, pair / 2 * 4 + h * 2 + pair % 2));
            // With the level's sign moved to the activation: no level is −128, so no pair of products overflows.
            dot(_mm256_abs_epi8(level), _mm256_sign_epi8(quants, level))
        });
        let sums = _mm256_cvtepi32_ps(_mm256_add_epi32(first, second));
        *acc = _mm256_fmadd_ps(sums, two(factors, pair), *acc);
    }
}

/// The sum of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes(v: __m256) -> f32 {
    let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
}
