//! Rows of blocks in file order times one row of activations with AVX-512 VNNI. A vector holds two q8_0 blocks or four
//! q4_0 blocks. Scales are extracted from the same loads as the weights.

use core::arch::x86_64::*;

use super::activations::Panel;
use super::formats::{Marker, TileFormat};
use crate::scratch::Scratch;
use crate::x86::prefetch;

/// The activations for one vector of weights: quants in the order of the weights, and an initial integer and a scale for each
/// lane.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct PreparedActivations {
    low: [i32; 16],
    /// The columns of q4_0's high halves.
    high: [i32; 16],
    offset: [i32; 16],
    scales: [f32; 16],
}

/// Blocks per vector.
const fn blocks_per_vector(format: TileFormat) -> usize {
    match format {
        TileFormat::Q8_0 => 2,
        TileFormat::Q4_0 => 4,
    }
}

/// Prepares activations for [`rows`].
pub(super) fn prepare_activations<F: Marker<TileFormat>>(x: Panel<'_, 1>) -> Scratch<PreparedActivations> {
    let n = blocks_per_vector(F::FORMAT);
    let lanes = 16 / n;
    let zero_point = F::FORMAT.offset();
    let mut out = Scratch::<PreparedActivations>::new(x.scales.len().div_ceil(n));
    out.fill(bytemuck::Zeroable::zeroed());
    for (b, block) in x.blocks().enumerate() {
        let (out, at) = (&mut out[b / n], b % n * lanes);
        out.low[at..at + lanes].copy_from_slice(&block.quants[0][..lanes]);
        out.high[at..at + 8 - lanes].copy_from_slice(&block.quants[0][lanes..]);
        // A block's lanes are added up at the end, so one of them can hold the whole offset.
        out.offset[at] = -zero_point * block.sums[0];
        out.scales[at..at + lanes].fill(block.scales[0]);
    }
    out
}

/// Word indices of a vector's weights: below 32 from the first load, from 32 on from the second, which ends with the last
/// block.
static WEIGHTS: [[u16; 32]; 2] = {
    let mut all = [[0; 32]; 2];
    let mut i = 0;
    while i < 32 {
        let (q8, q4) = (i / 16 * 17 + 1 + i % 16, i / 8 * 9 + 1 + i % 8);
        all[0][i] = (if q8 < 32 { q8 } else { q8 + 32 - (Q8_LAST / 2) }) as u16;
        all[1][i] = (if q4 < 32 { q4 } else { q4 + 32 - (Q4_LAST / 2) }) as u16;
        i += 1;
    }
    all
};

/// For the scale of each lane, a word index in the first load.
static SCALES: [[u16; 32]; 2] = {
    let mut all = [[0; 32]; 2];
    let mut i = 0;
    while i < 16 {
        (all[0][i], all[1][i]) = ((i / 8 * 17) as u16, (i / 4 * 9) as u16);
        i += 1;
    }
    all
};

/// Start of the second load, of the last sixteen bytes of two q8_0 blocks or four q4_0 blocks.
const Q8_LAST: usize = 52;
const Q4_LAST: usize = 56;

/// Prefetches bytes well after `at`, because the hardware's prefetcher stops at page boundaries and follows
/// four rows badly. The row of activations for q8_0 fills half of an L1 cache, so its weights go to the L2
/// cache.
#[inline]
#[target_feature(enable = "avx512f")]
fn prefetch_weights<F: Marker<TileFormat>>(at: *const u8) {
    if F::FORMAT == TileFormat::Q8_0 {
        prefetch::<_MM_HINT_T1, _>(at.wrapping_add(24 << 10));
    } else {
        prefetch::<_MM_HINT_T0, _>(at.wrapping_add(4 << 10));
    }
}

/// Σ over blocks of scale · scale · Σ quant · quant, for `R` rows of blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn rows<const R: usize, F: Marker<TileFormat>>(
    rows: [&[u8]; R],
    x: &[PreparedActivations],
) -> [f32; R] {
    let bytes = blocks_per_vector(F::FORMAT) * F::BYTES;
    let mut acc = [_mm512_setzero_ps(); R];
    let whole = rows.iter().fold(x.len(), |n, row| n.min(row.len() / bytes));
    for (v, x) in x[..whole].iter().enumerate() {
        for (acc, row) in acc.iter_mut().zip(rows) {
            let at = row.as_ptr().wrapping_add(v * bytes);
            // The next rows: the hardware's prefetcher stops at page boundaries.
            prefetch_weights::<F>(at);
            // SAFETY: `whole` vectors of blocks are in each row.
            *acc = unsafe { step::<F>(*acc, at, x) };
        }
    }
    if let Some(x) = x.get(whole) {
        for (acc, row) in acc.iter_mut().zip(rows) {
            let mut last = [0u8; 128];
            let rest = &row[(whole * bytes).min(row.len())..];
            let rest = &rest[..rest.len().min(bytes)];
            last[..rest.len()].copy_from_slice(rest);
            // SAFETY: 128 bytes, more than a vector of blocks takes.
            *acc = unsafe { step::<F>(*acc, last.as_ptr(), x) };
        }
    }
    acc.map(|acc| _mm512_reduce_add_ps(acc))
}

/// Adds the products of one vector of blocks.
///
/// # Safety
/// `blocks` must be readable for [`blocks_per_vector`] blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn step<F: Marker<TileFormat>>(acc: __m512, blocks: *const u8, x: &PreparedActivations) -> __m512 {
    let wide = F::FORMAT == TileFormat::Q8_0;
    // SAFETY: the tables and the parts of `x` are 64 bytes each.
    let (weights, scales, low, high, offset, x_scales) = unsafe {
        (
            _mm512_loadu_si512(WEIGHTS[usize::from(!wide)].as_ptr().cast()),
            _mm512_loadu_si512(SCALES[usize::from(!wide)].as_ptr().cast()),
            _mm512_load_si512(x.low.as_ptr().cast()),
            _mm512_load_si512(x.high.as_ptr().cast()),
            _mm512_load_si512(x.offset.as_ptr().cast()),
            _mm512_load_ps(x.scales.as_ptr()),
        )
    };
    // SAFETY: the blocks have 68 bytes (q8_0) or 72 (q4_0), and the last load ends with them.
    let (first, last) = unsafe {
        let last = blocks.add(if wide { Q8_LAST } else { Q4_LAST });
        let last = _mm512_zextsi128_si512(_mm_loadu_si128(last.cast()));
        (_mm512_loadu_si512(blocks.cast()), last)
    };
    let w = _mm512_permutex2var_epi16(first, weights, last);
    let sums = if wide {
        _mm512_dpbusd_epi32(offset, _mm512_xor_si512(w, _mm512_set1_epi8(i8::MIN)), low)
    } else {
        let mask = _mm512_set1_epi8(15);
        let sums = _mm512_dpbusd_epi32(offset, _mm512_and_si512(w, mask), low);
        _mm512_dpbusd_epi32(sums, _mm512_and_si512(_mm512_srli_epi16::<4>(w), mask), high)
    };
    let scales = _mm512_castsi512_si256(_mm512_permutexvar_epi16(scales, first));
    _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_mul_ps(_mm512_cvtph_ps(scales), x_scales), acc)
}
