//! Unpacking with NEON. Codes of eight bits become signed bytes.

use core::arch::aarch64::*;
use std::ops::Range;

use super::super::blocks::TILE_ROWS;
use super::super::formats::TileFormat;
use super::super::neon::to_f32;
use super::super::tiles::Tile;
use super::words::{Target, Vector, Words};
use super::{Format, Step, unpack_on};
use crate::isa::Level;
use crate::simd::Simd;
use crate::simd::neon::Neon;

#[derive(Clone, Copy)]
struct Unpacking(Neon);

/// Sixteen words in four registers.
#[derive(Clone, Copy)]
struct W([uint32x4_t; 4]);

impl W {
    #[inline(always)]
    fn each(self, f: impl Fn(uint32x4_t) -> uint32x4_t) -> Self {
        W(self.0.map(f))
    }

    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(uint32x4_t, uint32x4_t) -> uint32x4_t) -> Self {
        W(core::array::from_fn(|q| f(self.0[q], other.0[q])))
    }

    /// Computes on floats.
    #[inline(always)]
    fn floats(self, other: Self, f: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Self {
        // SAFETY: NEON.
        self.with(other, |a, b| unsafe {
            vreinterpretq_u32_f32(f(vreinterpretq_f32_u32(a), vreinterpretq_f32_u32(b)))
        })
    }

    /// Shifts to the left, or by a negative number to the right.
    #[inline(always)]
    fn shifted(self, by: i32) -> Self {
        // SAFETY: NEON.
        self.each(|a| unsafe { vshlq_u32(a, vdupq_n_s32(by)) })
    }
}

impl Vector for W {
    #[inline(always)]
    fn load(words: Words) -> Self {
        // SAFETY: four of sixteen words.
        W(core::array::from_fn(|q| unsafe { vld1q_u32(words.0.as_ptr().add(4 * q)) }))
    }
    #[inline(always)]
    fn store(self) -> Words {
        let mut words = Words([0; TILE_ROWS]);
        for (q, v) in self.0.into_iter().enumerate() {
            // SAFETY: four of sixteen words.
            unsafe { vst1q_u32(words.0.as_mut_ptr().add(4 * q), v) };
        }
        words
    }
    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: NEON.
        W([unsafe { vdupq_n_u32(word) }; 4])
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: NEON.
        self.with(other, |a, b| unsafe { vandq_u32(a, b) })
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: NEON.
        self.with(other, |a, b| unsafe { vorrq_u32(a, b) })
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: NEON.
        self.with(other, |a, b| unsafe { veorq_u32(a, b) })
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: NEON.
        self.with(other, |a, b| unsafe { vaddq_u32(a, b) })
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        // SAFETY: NEON.
        self.with(other, |a, b| unsafe { vmulq_u32(a, b) })
    }
    #[inline(always)]
    fn right(self, by: u32) -> Self {
        self.shifted(-(by as i32))
    }
    #[inline(always)]
    fn left(self, by: u32) -> Self {
        self.shifted(by as i32)
    }
    #[inline(always)]
    fn highest(self) -> Self {
        // SAFETY: NEON.
        self.each(|a| unsafe { vreinterpretq_u32_s32(vshrq_n_s32::<24>(vreinterpretq_s32_u32(a))) })
    }
    #[inline(always)]
    fn to_floats(self) -> Self {
        // SAFETY: NEON.
        self.each(|a| unsafe { vreinterpretq_u32_f32(vcvtq_f32_s32(vreinterpretq_s32_u32(a))) })
    }
    #[inline(always)]
    fn nearest(self) -> Self {
        // SAFETY: NEON.
        self.each(|a| unsafe { vreinterpretq_u32_s32(vcvtnq_s32_f32(vreinterpretq_f32_u32(a))) })
    }
    #[inline(always)]
    fn fmul(self, other: Self) -> Self {
        // SAFETY: NEON.
        self.floats(other, |a, b| unsafe { vmulq_f32(a, b) })
    }
    #[inline(always)]
    fn fdiv(self, other: Self) -> Self {
        // SAFETY: NEON.
        self.floats(other, |a, b| unsafe { vdivq_f32(a, b) })
    }
    #[inline(always)]
    fn fmax(self, other: Self) -> Self {
        // SAFETY: NEON.
        self.floats(other, |a, b| unsafe { vmaxq_f32(a, b) })
    }
}

impl Target for Unpacking {
    type V = W;

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        self.0.prefetch_far(at);
    }

    #[inline(always)]
    fn signed(self) -> bool {
        true
    }

    #[inline(always)]
    fn signed_bytes(self) -> bool {
        true
    }

    #[inline(always)]
    fn four(self, blocks: &[u8], stride: usize, at: usize) -> [W; 4] {
        // The last of sixteen rows is within the blocks.
        assert!(blocks.len() >= 15 * stride + at + 16);
        // SAFETY: row r < 16, so its sixteen bytes are within the blocks.
        let row = |r: usize| unsafe { vreinterpretq_u32_u8(vld1q_u8(blocks.as_ptr().add(r * stride + at))) };
        let v = [0, 4, 8, 12].map(|r| transposed([row(r), row(r + 1), row(r + 2), row(r + 3)]));
        core::array::from_fn(|g| W([v[0][g], v[1][g], v[2][g], v[3][g]]))
    }

    #[inline(always)]
    fn word(self, blocks: &[u8], stride: usize, at: usize) -> W {
        assert!(blocks.len() >= 15 * stride + at + 4);
        let mut out = Words([0; TILE_ROWS]);
        for (r, out) in out.0.iter_mut().enumerate() {
            // SAFETY: four bytes within the blocks, for every row up to the last.
            *out = unsafe { blocks.as_ptr().add(r * stride + at).cast::<u32>().read_unaligned() };
        }
        W::load(out)
    }

    #[inline(always)]
    fn lookup(self, table: &[u8; 16], codes: W) -> W {
        // SAFETY: NEON; the table has 16 bytes.
        unsafe {
            let table = vld1q_u8(table.as_ptr());
            codes.each(|codes| vreinterpretq_u32_u8(vqtbl1q_u8(table, vreinterpretq_u8_u32(codes))))
        }
    }

    #[inline(always)]
    fn halves(self, bits: W) -> W {
        // SAFETY: NEON.
        bits.each(|bits| unsafe { vreinterpretq_u32_f32(to_f32(vmovn_u32(bits))) })
    }
}

/// Four words of four rows: a column each.
#[inline(always)]
fn transposed([a, b, c, d]: [uint32x4_t; 4]) -> [uint32x4_t; 4] {
    // SAFETY: NEON.
    unsafe {
        let wide = |v: uint32x4_t| vreinterpretq_u64_u32(v);
        let even = [wide(vtrn1q_u32(a, b)), wide(vtrn1q_u32(c, d))];
        let odd = [wide(vtrn2q_u32(a, b)), wide(vtrn2q_u32(c, d))];
        [
            vreinterpretq_u32_u64(vzip1q_u64(even[0], even[1])),
            vreinterpretq_u32_u64(vzip1q_u64(odd[0], odd[1])),
            vreinterpretq_u32_u64(vzip2q_u64(even[0], even[1])),
            vreinterpretq_u32_u64(vzip2q_u64(odd[0], odd[1])),
        ]
    }
}

/// Unpacks blocks for the products of this level.
pub(super) fn unpack(level: Level, format: Format, rows: &[u8], at: (usize, usize), steps: &mut [Step]) {
    // SAFETY: every processor of this target has NEON.
    unpack_on(Unpacking(unsafe { Neon::new_unchecked() }), format, rows, at, steps);
    for_level(level, steps);
}

/// Unpacks these blocks of a tile for the products of this level.
pub(super) fn unpack_tile(
    level: Level,
    format: TileFormat,
    tile: Tile<'_>,
    blocks: Range<usize>,
    steps: &mut [Step],
) {
    for (b, step) in blocks.zip(&mut *steps) {
        let bytes = format.quant_bytes() * TILE_ROWS;
        // Tiles and their lines are aligned.
        let lines: &[Words] = bytemuck::cast_slice(&tile.quants[b * bytes..][..bytes]);
        let signs = W::splat(u32::from_ne_bytes([0x80; 4]));
        for (g, line) in lines.iter().enumerate() {
            let codes = W::load(*line);
            match format {
                TileFormat::Q8_0 => step.codes[g] = codes.xor(signs).store(),
                TileFormat::Q4_0 => {
                    let signed = |codes: W| codes.plus(W::splat(u32::from_ne_bytes([120; 4]))).xor(signs);
                    step.codes[g] = signed(codes.field(0, 15)).store();
                    step.codes[4 + g] = signed(codes.field(4, 15)).store();
                }
            }
        }
        for (scale, bits) in step.scale.as_chunks_mut::<4>().0.iter_mut().zip(tile.scales[b].as_chunks().0) {
            let bits: &[u16; 4] = bits;
            // SAFETY: four f16, and as many f32.
            unsafe { vst1q_f32(scale.as_mut_ptr(), to_f32(vld1_u16(bits.as_ptr()))) };
        }
    }
    for_level(level, steps);
}

/// Arranges the codes in the order in which this level multiplies them.
fn for_level(level: Level, steps: &mut [Step]) {
    if level == Level::NeonI8mm {
        steps.iter_mut().for_each(pair);
    }
}

/// Turns every two lines of four columns of sixteen rows into one of eight columns of the first eight rows,
/// and one of the others.
fn pair(step: &mut Step) {
    for [first, second] in step.codes.as_chunks_mut::<2>().0 {
        let (a, b) = (W::load(*first).0, W::load(*second).0);
        // SAFETY: NEON.
        let zipped = |q: usize| unsafe { [vzip1q_u32(a[q], b[q]), vzip2q_u32(a[q], b[q])] };
        let [p, q, r, s] = [0, 1, 2, 3].map(zipped);
        *first = W([p[0], p[1], q[0], q[1]]).store();
        *second = W([r[0], r[1], s[0], s[1]]).store();
    }
}
