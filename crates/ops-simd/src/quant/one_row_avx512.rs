//! Rows of super-blocks in file order times one row of activations, with AVX-512 VNNI. It takes half as many
//! instructions as with 256 bits, and two rows at a time depend on each other less, so more of the next bytes
//! are in flight.

use core::arch::x86_64::*;

use super::formats::{LEVELS, Marker, SuperFormat};
use super::one_row::Prepared;
use super::one_row_avx2::{iq4_xs_numbers, load_half, six_bit_numbers, unit};
use crate::x86::prefetch;

/// Bytes ahead of a block that are prefetched to the L2 cache, well beyond the rows being read. The
/// hardware's prefetcher stops at page boundaries.
const AHEAD: usize = 8192;

/// The products of `R` rows of weights with a row of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn products<F: Marker<SuperFormat>, const R: usize>(rows: [&[u8]; R], x: &[Prepared]) -> [f32; R] {
    let mut acc = [[_mm512_setzero_ps(); 3]; R];
    let rows = rows.map(|row| F::blocks(row));
    for (b, x) in x.iter().enumerate() {
        for (acc, row) in acc.iter_mut().zip(rows) {
            let Some(block) = row.get(b) else { continue };
            let block = block.as_ref();
            for line in 0..F::BYTES.div_ceil(64) {
                prefetch::<_MM_HINT_T1, _>(block.as_ptr().wrapping_add(AHEAD + 64 * line));
            }
            match F::FORMAT {
                SuperFormat::Q4K => q4_k(acc, block, x),
                SuperFormat::Q5K => q5_k(acc, block, x),
                SuperFormat::Q6K => q6_k(acc, block, x),
                SuperFormat::Iq4Xs => iq4_xs(acc, block, x),
            }
        }
    }
    acc.map(|[a, b, c]| _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), c)))
}

/// 64 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(block: &[u8], at: usize) -> __m512i {
    let bytes = &block[at..][..64];
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// 32 bytes from `at` on, twice.
#[inline]
#[target_feature(enable = "avx512f")]
fn twice(block: &[u8], at: usize) -> __m512i {
    let bytes = &block[at..][..32];
    // SAFETY: 32 bytes.
    _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn floats(from: &[f32; 16]) -> __m512 {
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

/// Vector `v` of the activations: two steps.
#[inline]
#[target_feature(enable = "avx512f")]
fn quants(x: &Prepared, v: usize) -> __m512i {
    load(bytemuck::cast_slice(x.quants.as_flattened()), 64 * v)
}

/// Scales 4 `v` and on, in four lanes each.
#[inline]
#[target_feature(enable = "avx512f")]
fn spread(scales: __m512, v: usize) -> __m512 {
    let quarters = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    _mm512_permutexvar_ps(_mm512_add_epi32(quarters, _mm512_set1_epi32(4 * v as i32)), scales)
}

/// The low and the high halves of bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn nibbles(bytes: __m512i) -> [__m512i; 2] {
    let mask = _mm512_set1_epi8(15);
    [_mm512_and_si512(bytes, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), mask)]
}

/// The factors of the steps of q4_k and q5_k. Adds those of their minima to `offsets`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn six_bit_scales(offsets: &mut __m512, block: &[u8], x: &Prepared) -> __m512 {
    let head = load_half(block, 0);
    let numbers = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(six_bit_numbers(head)));
    // The first unit eight times, then the second.
    let units = _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(head),
        _mm256_setr_epi64x(
            0x0100_0100_0100_0100,
            0x0100_0100_0100_0100,
            0x0302_0302_0302_0302,
            0x0302_0302_0302_0302,
        ),
    );
    let scales = _mm512_mul_ps(_mm512_mul_ps(numbers, _mm512_cvtph_ps(units)), floats(&x.scales));
    *offsets = _mm512_mask_add_ps(*offsets, 0xff00, *offsets, scales);
    scales
}

/// Adds the products of vector `v` of the codes: step `4 · (v / 2) + v % 2` in its lower half, and the next but one in the upper.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn add_steps(acc: &mut [__m512; 3], codes: __m512i, scales: __m512, x: &Prepared, v: usize) {
    let first = (4 * (v / 2) + v % 2) as i32;
    let steps = _mm512_mask_set1_epi32(_mm512_set1_epi32(first), 0xff00, first + 2);
    let sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, quants(x, v));
    acc[v % 2] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_permutexvar_ps(steps, scales), acc[v % 2]);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn q4_k(acc: &mut [__m512; 3], block: &[u8], x: &Prepared) {
    let scales = six_bit_scales(&mut acc[2], block, x);
    for half in 0..2 {
        for (i, codes) in nibbles(load(block, 16 + 64 * half)).into_iter().enumerate() {
            add_steps(acc, codes, scales, x, 2 * half + i);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn q5_k(acc: &mut [__m512; 3], block: &[u8], x: &Prepared) {
    let scales = six_bit_scales(&mut acc[2], block, x);
    // Bit s, for step s, moves to bit 4.
    let high = twice(block, 16);
    let shifts = |low: i16, upper: i16| _mm512_mask_set1_epi16(_mm512_set1_epi16(low), 0xffff_0000, upper);
    let highs = [
        _mm512_sllv_epi16(high, shifts(4, 2)),
        _mm512_sllv_epi16(high, shifts(3, 1)),
        _mm512_srlv_epi16(high, shifts(0, 2)),
        _mm512_srlv_epi16(high, shifts(1, 3)),
    ];
    for half in 0..2 {
        for (i, codes) in nibbles(load(block, 48 + 64 * half)).into_iter().enumerate() {
            let v = 2 * half + i;
            let codes = _mm512_or_si512(codes, _mm512_and_si512(highs[v], _mm512_set1_epi8(16)));
            add_steps(acc, codes, scales, x, v);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn q6_k(acc: &mut [__m512; 3], block: &[u8], x: &Prepared) {
    let numbers = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_half(block, 192)));
    let unit = unit(block, 208);
    let scales = _mm512_mul_ps(numbers, _mm512_insertf32x8::<1>(_mm512_castps256_ps512(unit), unit));
    acc[2] = _mm512_fmadd_ps(scales, floats(&x.offsets), acc[2]);
    let scales = _mm512_mul_ps(scales, floats(&x.scales));
    // Bits 0 and 1, or 2 and 3 in the upper half, move to 4 and 5, and so do 4 and 5, or 6 and 7.
    let left = _mm512_mask_set1_epi16(_mm512_set1_epi16(4), 0xffff_0000, 2);
    let right = _mm512_mask_set1_epi16(_mm512_setzero_si512(), 0xffff_0000, 2);
    for half in 0..2 {
        let high = twice(block, 128 + 32 * half);
        let highs = [_mm512_sllv_epi16(high, left), _mm512_srlv_epi16(high, right)];
        for (i, codes) in nibbles(load(block, 64 * half)).into_iter().enumerate() {
            let codes = _mm512_or_si512(codes, _mm512_and_si512(highs[i], _mm512_set1_epi8(48)));
            let v = 2 * half + i;
            let sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, quants(x, v));
            acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), spread(scales, v), acc[i]);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn iq4_xs(acc: &mut [__m512; 3], block: &[u8], x: &Prepared) {
    // Scales in the lower half, offsets of steps in the upper.
    let scales = _mm256_mul_ps(iq4_xs_numbers(block), unit(block, 0));
    let both = _mm512_insertf32x8::<1>(_mm512_castps256_ps512(scales), scales);
    let scales = _mm512_mul_ps(both, floats(&x.scales));
    acc[2] = _mm512_mask_add_ps(acc[2], 0xff00, acc[2], scales);
    let levels = _mm512_broadcast_i32x4(load_half(&LEVELS, 0));
    for (half, acc) in acc[..2].iter_mut().enumerate() {
        let [low, high] = nibbles(load(block, 8 + 64 * half)).map(|codes| _mm512_shuffle_epi8(levels, codes));
        let sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, quants(x, 2 * half));
        let sums = _mm512_dpbusd_epi32(sums, high, quants(x, 2 * half + 1));
        *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), spread(scales, half), *acc);
    }
}
