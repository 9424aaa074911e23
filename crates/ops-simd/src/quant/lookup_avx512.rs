//! A row of table codes times rows of activations with AVX-512 VNNI. A vector holds two steps.

use core::arch::x86_64::*;

use super::activations::{Block, Panel};
use super::lookup::{LookupFormat, Step};

/// The products of one row of weights with `M` rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn row<const M: usize>(format: LookupFormat, row: &[u8], x: Panel<'_, M>) -> [f32; M] {
    let half = |bits: u16| _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into())));
    // Levels are made unsigned by 128, which `add` takes off again.
    let levels = format.levels().map(|level| (level as u8) ^ 0x80);
    // SAFETY: 16 bytes.
    let levels = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(levels.as_ptr().cast()) });
    let mut acc = [_mm512_setzero_ps(); M];
    let mut blocks = x.blocks();
    let mut first: Option<(f32, __m256i, Block<'_, M>)> = None;
    format.each_step(row, half, |(factor, bytes): Step<'_>| {
        let Some(x) = blocks.next() else { return };
        // The hardware prefetcher stops at page boundaries.
        _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(1024).cast());
        let codes = weights(levels, bytes);
        match first.take() {
            None => first = Some((factor, codes, x)),
            Some((factor0, codes0, x0)) => {
                let codes = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(codes0), codes);
                add(&mut acc, codes, [factor0, factor], [x0, x]);
            }
        }
    });
    if let Some((factor, codes, x)) = first {
        // The second half counts nothing.
        add(&mut acc, _mm512_zextsi256_si512(codes), [factor, 0.0], [x, x]);
    }
    acc.map(|acc| _mm512_reduce_add_ps(acc))
}

/// The levels of sixteen bytes of codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn weights(levels: __m256i, bytes: &[u8; 16]) -> __m256i {
    // SAFETY: 16 bytes.
    let codes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let codes = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(codes), _mm_srli_epi16::<4>(codes));
    _mm256_shuffle_epi8(levels, _mm256_and_si256(codes, _mm256_set1_epi8(15)))
}

/// Adds two steps of each row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn add<const M: usize>(acc: &mut [__m512; M], codes: __m512i, factors: [f32; 2], x: [Block<'_, M>; 2]) {
    for (i, acc) in acc.iter_mut().enumerate() {
        // SAFETY: 32 bytes each.
        let [low, high] = x.map(|x| unsafe { _mm256_loadu_si256(x.quants[i].as_ptr().cast()) });
        let quants = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        let offset = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(i8::MIN), quants);
        let sums = _mm512_sub_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, quants), offset);
        let (low, high) =
            (_mm512_set1_ps(factors[0] * x[0].scales[i]), _mm512_set1_ps(factors[1] * x[1].scales[i]));
        *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_mask_mov_ps(low, 0xff00, high), *acc);
    }
}
