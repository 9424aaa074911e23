//! AVX-512: blocks are transposed in registers, and VNNI multiplies the codes.

use core::arch::x86_64::*;

use super::super::activations::Panel;
use super::super::rows_avx512::transpose_squares;
use super::words::{Lanes, Target, Vector, Words};
use super::{CodeFormat, Kind, Step, unpack_on};

/// A value proves that the processor has AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy)]
struct Avx512(());

/// Sixteen words in a register.
#[derive(Clone, Copy)]
struct W(__m512i);

impl Vector for W {
    #[inline(always)]
    fn load(words: Words) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(vector(words)) }
    }
    #[inline(always)]
    fn store(self) -> Words {
        // SAFETY: the processor has the instructions: only targets make registers.
        from_vector(self.0)
    }
    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_set1_epi32(word as i32)) }
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_and_si512(self.0, other.0)) }
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_or_si512(self.0, other.0)) }
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_xor_si512(self.0, other.0)) }
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_add_epi32(self.0, other.0)) }
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_mullo_epi32(self.0, other.0)) }
    }
    #[inline(always)]
    fn right(self, by: u32) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_srl_epi32(self.0, _mm_cvtsi32_si128(by as i32))) }
    }
    #[inline(always)]
    fn left(self, by: u32) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_sll_epi32(self.0, _mm_cvtsi32_si128(by as i32))) }
    }
    #[inline(always)]
    fn highest(self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_srai_epi32::<24>(self.0)) }
    }
    #[inline(always)]
    fn to_floats(self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_castps_si512(_mm512_cvtepi32_ps(self.0))) }
    }
    #[inline(always)]
    fn nearest(self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(_mm512_cvtps_epi32(_mm512_castsi512_ps(self.0))) }
    }
    #[inline(always)]
    fn fmul(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe {
            W(_mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(self.0), _mm512_castsi512_ps(other.0))))
        }
    }
    #[inline(always)]
    fn fdiv(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe {
            W(_mm512_castps_si512(_mm512_div_ps(_mm512_castsi512_ps(self.0), _mm512_castsi512_ps(other.0))))
        }
    }
    #[inline(always)]
    fn fmax(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe {
            W(_mm512_castps_si512(_mm512_max_ps(_mm512_castsi512_ps(self.0), _mm512_castsi512_ps(other.0))))
        }
    }
}

impl Target for Avx512 {
    type V = W;

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // SAFETY: every processor of this architecture has the instruction, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }

    #[inline(always)]
    fn four(self, blocks: &[u8], stride: usize, at: usize) -> [W; 4] {
        // The last of sixteen rows is within the blocks.
        assert!(blocks.len() >= 15 * stride + at + 16);
        // SAFETY: the processor has the features, and sixteen bytes of each row are within the blocks.
        let [a, b, c, d] = unsafe { transposed(blocks.as_ptr().add(at), stride) };
        [W(a), W(b), W(c), W(d)]
    }

    #[inline(always)]
    fn word(self, blocks: &[u8], stride: usize, at: usize) -> W {
        assert!(blocks.len() >= 15 * stride + at + 4);
        let mut out = Words([0; 16]);
        for (r, out) in out.0.iter_mut().enumerate() {
            // SAFETY: four bytes within the blocks, for every row up to the last.
            *out = unsafe { blocks.as_ptr().add(r * stride + at).cast::<u32>().read_unaligned() };
        }
        W::load(out)
    }

    #[inline(always)]
    fn lookup(self, table: &[u8; 16], codes: W) -> W {
        // SAFETY: the processor has the features; the table has 16 bytes.
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            W(_mm512_shuffle_epi8(table, codes.0))
        }
    }

    #[inline(always)]
    fn halves(self, bits: W) -> W {
        // SAFETY: the processor has the features.
        unsafe { W(_mm512_castps_si512(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits.0)))) }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn vector(words: Words) -> __m512i {
    // SAFETY: 64 bytes, aligned.
    unsafe { _mm512_load_si512(words.0.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn floats(v: __m512) -> Lanes {
    let mut out = [0.0; 16];
    // SAFETY: 64 bytes.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), v) };
    out
}

#[inline(always)]
fn from_vector(v: __m512i) -> Words {
    // SAFETY: both have 64 bytes, and any are valid.
    unsafe { core::mem::transmute::<__m512i, Words>(v) }
}

/// Sixteen bytes of each of sixteen rows, four columns per vector.
///
/// # Safety
/// Sixteen bytes must be readable at `first` and at fifteen more addresses, `stride` bytes apart.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn transposed(first: *const u8, stride: usize) -> [__m512i; 4] {
    let mut v = [_mm512_setzero_si512(); 4];
    for (i, v) in v.iter_mut().enumerate() {
        // SAFETY: row r < 16, and the caller guarantees its sixteen bytes.
        let row = |r: usize| unsafe { _mm_loadu_si128(first.add(r * stride).cast()) };
        // Rows i, i + 4, i + 8, i + 12.
        let low = _mm512_mask_broadcast_i32x4(_mm512_castsi128_si512(row(i)), 0x00f0, row(i + 4));
        let third = _mm512_mask_broadcast_i32x4(low, 0x0f00, row(i + 8));
        *v = _mm512_mask_broadcast_i32x4(third, 0xf000, row(i + 12));
    }
    transpose_squares(v)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi2")]
pub(super) fn unpack(format: CodeFormat, rows: &[u8], at: (usize, usize), steps: &mut [Step]) {
    unpack_on(Avx512(()), format, rows, at, steps);
}

/// Σ over steps of scale · scale · Σ code · quant, less the minima, for sixteen rows of weights and `M` rows of activations.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn dot<const M: usize>(kind: Kind, steps: &[Step], x: Panel<'_, M>) -> [Lanes; M] {
    match kind {
        Kind::Signed => dot_of::<M, 0>(steps, x),
        Kind::Minimum => dot_of::<M, 1>(steps, x),
        Kind::TwoMinima => dot_of::<M, 2>(steps, x),
    }
}

/// The same for a number of minima; without any, codes have an offset of 128.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn dot_of<const M: usize, const MINIMA: usize>(steps: &[Step], x: Panel<'_, M>) -> [Lanes; M] {
    let mut acc = [_mm512_setzero_ps(); M];
    // SAFETY: 64 bytes.
    let load = |lanes: &Lanes| unsafe { _mm512_loadu_ps(lanes.as_ptr()) };
    for (step, x) in steps.iter().zip(x.blocks()) {
        let mut codes = [_mm512_setzero_si512(); 8];
        for (out, codes) in codes.iter_mut().zip(step.codes) {
            *out = vector(codes);
        }
        let (scale, minima) = (load(&step.scale), [load(&step.minima[0]), load(&step.minima[1])]);
        for (r, acc) in acc.iter_mut().enumerate() {
            // Two sums, so that consecutive instructions do not depend on each other.
            let start =
                if MINIMA == 0 { _mm512_set1_epi32(x.offsets[r].wide) } else { _mm512_setzero_si512() };
            let mut sums = [start, _mm512_setzero_si512()];
            for (g, codes) in codes.iter().enumerate() {
                sums[g % 2] = _mm512_dpbusd_epi32(sums[g % 2], *codes, _mm512_set1_epi32(x.quants[r][g]));
            }
            let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(sums[0], sums[1]));
            *acc = _mm512_fmadd_ps(sum, _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[r])), *acc);
            if MINIMA == 1 {
                *acc = _mm512_fmadd_ps(minima[0], _mm512_set1_ps(x.offsets[r].minus), *acc);
            }
            if MINIMA == 2 {
                for (min, x) in minima.into_iter().zip(x.offsets[r].halves) {
                    *acc = _mm512_fmadd_ps(min, _mm512_set1_ps(x), *acc);
                }
            }
        }
    }
    let mut out = [[0.0; 16]; M];
    for (out, acc) in out.iter_mut().zip(acc) {
        *out = floats(acc);
    }
    out
}
