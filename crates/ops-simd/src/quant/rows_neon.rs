//! Rows of blocks times rows of activations with NEON: a vector has the sums of four rows of blocks, in the order in which codes are
//! summed.

use core::arch::aarch64::*;

use super::activations::Panel;
use super::blocks::scale_bits;
use super::formats::{Marker, TileFormat};
use super::neon::{Dot, Dots, Matrices, Pairs, halves, to_f32};
use super::panels::WORDS;
use crate::isa::Level;

/// A step of four rows, or a row of activations: 32 signed bytes.
type Bytes = [int8x16_t; 2];

/// Instructions that multiply steps of four rows.
trait Products: Copy {
    /// The sums of products with `M` rows of activations.
    fn sums<const M: usize>(self, w: &[Bytes; 4], x: &[[i32; WORDS]; M]) -> [int32x4_t; M];
}

/// Products of one row of activations after the other.
#[derive(Clone, Copy)]
struct Single<D>(D);

impl<D: Dot> Products for Single<D> {
    #[inline(always)]
    fn sums<const M: usize>(self, w: &[Bytes; 4], x: &[[i32; WORDS]; M]) -> [int32x4_t; M] {
        x.each_ref().map(|x| sums_of_one(self.0, w, words(x)))
    }
}

impl Products for Matrices {
    #[inline(always)]
    fn sums<const M: usize>(self, w: &[Bytes; 4], x: &[[i32; WORDS]; M]) -> [int32x4_t; M] {
        // SAFETY: NEON.
        let mut sums = [unsafe { vdupq_n_s32(0) }; M];
        let (of_w, (of_x, one)) = ([eights([w[0], w[1]]), eights([w[2], w[3]])], x.as_chunks::<2>());
        for (sums, [a, b]) in sums.as_chunks_mut::<2>().0.iter_mut().zip(of_x) {
            let x = eights([words(a), words(b)]);
            for (sum, w) in sums.iter_mut().zip(&of_w) {
                *sum = w.iter().zip(x).fold(*sum, |sum, (w, x)| self.multiply(sum, x, *w));
            }
            // SAFETY: NEON.
            unsafe {
                let rows = halves(sums.map(|sum| vreinterpretq_s64_s32(sum)));
                *sums = rows.map(|row| vreinterpretq_s32_s64(row));
            }
        }
        if let [x] = one {
            sums[M - 1] = sums_of_one(self.dots(), w, words(x));
        }
        sums
    }
}

/// The sums of four rows with a row of activations.
#[inline(always)]
fn sums_of_one<D: Dot>(d: D, w: &[Bytes; 4], x: Bytes) -> int32x4_t {
    // SAFETY: NEON.
    unsafe {
        let [a, b, c, e] = w.map(|w| d.dot(d.dot(vdupq_n_s32(0), w[0], x[0]), w[1], x[1]));
        vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, e))
    }
}

/// Eight bytes of both rows each.
#[inline(always)]
fn eights([a, b]: [Bytes; 2]) -> [int8x16_t; 4] {
    // SAFETY: NEON.
    unsafe {
        let both = |h: usize| halves([vreinterpretq_s64_s8(a[h]), vreinterpretq_s64_s8(b[h])]);
        let [[p, q], [r, s]] = [both(0), both(1)];
        [p, q, r, s].map(|eights| vreinterpretq_s8_s64(eights))
    }
}

/// Σ over blocks of scale · scale · Σ quant · quant, for `R` rows of blocks and `M` rows of activations. `R` is at most
/// four: fewer rows take as long as four.
pub(super) fn rows<const M: usize, const R: usize, F: Marker<TileFormat>>(
    level: Level,
    rows: [&[u8]; R],
    x: Panel<'_, M>,
) -> [[f32; M]; R] {
    let four = core::array::from_fn(|r| rows[r.min(R - 1)]);
    let sums = match level {
        // SAFETY: this level exists only after i8mm and dotprod were detected.
        Level::NeonI8mm => four_rows::<_, M, F>(unsafe { Matrices::new_unchecked() }, four, x),
        // SAFETY: this level exists only after dotprod was detected.
        Level::NeonDotProd => four_rows::<_, M, F>(Single(unsafe { Dots::new_unchecked() }), four, x),
        _ => four_rows::<_, M, F>(Single(Pairs), four, x),
    };
    core::array::from_fn(|r| sums.map(|of_x| of_x[r]))
}

#[inline(never)]
fn four_rows<P: Products, const M: usize, F: Marker<TileFormat>>(
    p: P,
    rows: [&[u8]; 4],
    x: Panel<'_, M>,
) -> [[f32; 4]; M] {
    let rows = rows.map(|row| F::blocks(row));
    // SAFETY: NEON.
    let mut totals = [unsafe { vdupq_n_f32(0.0) }; M];
    for (b, x) in x.blocks().enumerate() {
        let blocks = rows.map(|row| &row[b]);
        let scales = blocks.map(|block| scale_bits(block.as_ref()));
        let sums = p.sums(&blocks.map(signed::<F>), x.quants);
        // SAFETY: NEON, and four f16.
        unsafe {
            let scales = to_f32(vld1_u16(scales.as_ptr()));
            for (r, (total, sums)) in totals.iter_mut().zip(sums).enumerate() {
                *total = vfmaq_f32(*total, vcvtq_f32_s32(sums), vmulq_n_f32(scales, x.scales[r]));
            }
        }
    }
    totals.map(|total| {
        let mut four = [0.0; 4];
        // SAFETY: four f32.
        unsafe { vst1q_f32(four.as_mut_ptr(), total) };
        four
    })
}

#[inline(always)]
fn words(x: &[i32; WORDS]) -> Bytes {
    let bytes: *const i8 = x.as_ptr().cast();
    // SAFETY: 32 bytes.
    unsafe { [vld1q_s8(bytes), vld1q_s8(bytes.add(16))] }
}

/// The quants of a block.
#[inline(always)]
fn signed<F: Marker<TileFormat>>(block: &F::Block) -> Bytes {
    let quants = &block.as_ref()[2..];
    if F::FORMAT == TileFormat::Q8_0 {
        let quants: &[u8] = &quants[..32];
        // SAFETY: 32 bytes.
        return unsafe { [vld1q_s8(quants.as_ptr().cast()), vld1q_s8(quants.as_ptr().add(16).cast())] };
    }
    let quants: &[u8] = &quants[..16];
    // SAFETY: 16 bytes.
    unsafe {
        let v = vld1q_u8(quants.as_ptr());
        let halves = [vandq_u8(v, vdupq_n_u8(15)), vshrq_n_u8::<4>(v)];
        halves.map(|half| vsubq_s8(vreinterpretq_s8_u8(half), vdupq_n_s8(8)))
    }
}
