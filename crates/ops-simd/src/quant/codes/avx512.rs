//! AVX-512: blocks are transposed in registers, and VNNI multiplies the codes.

use core::arch::x86_64::*;

use super::super::activations::Panel;
use super::super::rows_avx512::transpose_squares;
use super::words::{Lanes, Target, Vector, Words};
use super::{Format, Kind, Step, unpack_on};
use crate::gemm::MatMut;

/// A value proves that the processor has AVX-512 F, BW, DQ and VL. It says whether it has VNNI.
#[derive(Clone, Copy)]
struct Avx512 {
    vnni: bool,
}

/// Sixteen words in a register.
#[derive(Clone, Copy)]
struct W(__m512i);

impl Vector for W {
    #[inline(always)]
    fn load(words: Words) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W(vector(&words)) }
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
    fn signed(self) -> bool {
        self.vnni
    }

    #[inline(always)]
    fn groups(self) -> bool {
        !self.vnni
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
fn vector(words: &Words) -> __m512i {
    // SAFETY: 64 bytes, aligned.
    unsafe { _mm512_load_si512(words.0.as_ptr().cast()) }
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
pub(super) fn unpack(format: Format, rows: &[u8], at: (usize, usize), steps: &mut [Step], vnni: bool) {
    unpack_on(Avx512 { vnni }, format, rows, at, steps);
}

/// A number for each row.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn lanes(lanes: &Lanes) -> __m512 {
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_ps(lanes.as_ptr()) }
}

/// Adds to y, or stores if `fresh`, Σ over steps of scale · scale · Σ code · quant, less the minima, for some tiles of weights and a
/// panel of `M` rows of activations. The products are those in y from the row and column `at` on.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn add<const M: usize, const T: usize>(
    kind: Kind,
    tiles: [&[Step]; T],
    x: Panel<'_, M>,
    fresh: bool,
    y: &mut MatMut<'_, f32>,
    at: (usize, usize),
) {
    let mut acc = [[_mm512_setzero_ps(); T]; M];
    if !fresh {
        // SAFETY: `each` gives the numbers of the mask.
        each(y, at, &mut acc, |lanes, mask, y| *lanes = unsafe { _mm512_maskz_loadu_ps(mask, y) });
    }
    match kind {
        Kind::Offset(_) => add_steps::<M, T, 0>(&mut acc, tiles, x),
        Kind::Minimum => add_steps::<M, T, 1>(&mut acc, tiles, x),
        Kind::TwoMinima => add_steps::<M, T, 2>(&mut acc, tiles, x),
    }
    // SAFETY: as above.
    each(y, at, &mut acc, |lanes, mask, y| unsafe { _mm512_mask_storeu_ps(y, mask, *lanes) });
}

/// Calls `f` with the lanes of each row and tile, a mask of those that y has, and where it has them.
#[inline(always)]
fn each<const M: usize, const T: usize>(
    y: &mut MatMut<'_, f32>,
    (i, j): (usize, usize),
    lanes: &mut [[__m512; T]; M],
    f: impl Fn(&mut __m512, __mmask16, *mut f32),
) {
    for (r, lanes) in lanes.iter_mut().enumerate() {
        let mut row = &mut y.row_mut(i + r)[j..];
        for lanes in lanes {
            let (now, after) = row.split_at_mut(row.len().min(16));
            f(lanes, ((1u32 << now.len()) - 1) as u16, now.as_mut_ptr());
            row = after;
        }
    }
}

/// Adds the products of all steps. With no minima, codes have an offset of 128.
///
/// A number of the activations is loaded once for all tiles, and the sums of a step are independent of each
/// other. With eight rows and two tiles, the sums take half of the registers; the compiler keeps most of
/// `acc` in memory, which costs less than is gained.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn add_steps<const M: usize, const T: usize, const MINIMA: usize>(
    acc: &mut [[__m512; T]; M],
    tiles: [&[Step]; T],
    x: Panel<'_, M>,
) {
    let steps = tiles.iter().fold(usize::MAX, |n, tile| n.min(tile.len()));
    let mut total = *acc;
    for (b, x) in x.blocks().take(steps).enumerate() {
        let mut sums = [[_mm512_setzero_si512(); T]; M];
        if MINIMA == 0 {
            sums = x.offsets.map(|offsets| [_mm512_set1_epi32(offsets.wide); T]);
        }
        for g in 0..8 {
            let codes = tiles.map(|tile| vector(&tile[b].codes[g]));
            for (sums, x) in sums.iter_mut().zip(x.quants) {
                let quants = _mm512_set1_epi32(x[g]);
                for (sum, codes) in sums.iter_mut().zip(codes) {
                    *sum = _mm512_dpbusd_epi32(*sum, codes, quants);
                }
            }
        }
        let scales = tiles.map(|tile| lanes(&tile[b].scale));
        for (r, total) in total.iter_mut().enumerate() {
            let of_x = _mm512_set1_ps(x.scales[r]);
            for (t, total) in total.iter_mut().enumerate() {
                let scale = _mm512_mul_ps(scales[t], of_x);
                *total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r][t]), scale, *total);
            }
        }
        for h in 0..MINIMA {
            let minima = tiles.map(|tile| lanes(&tile[b].minima[h]));
            for (total, x) in total.iter_mut().zip(x.offsets) {
                let of_x = _mm512_set1_ps(if MINIMA == 1 { x.minus } else { x.halves[h] });
                for (total, min) in total.iter_mut().zip(minima) {
                    *total = _mm512_fmadd_ps(min, of_x, *total);
                }
            }
        }
    }
    *acc = total;
}
