//! Rows of blocks times rows of activations with NEON. Bytes are multiplied in fours if the processor has dot products, and
//! otherwise in pairs to 16 bits.

use core::arch::aarch64::*;
use core::arch::asm;

use super::activations::{Panel, WORDS};
use super::blocks::{Q8_0_BYTES, scale_bits};

/// Σ over blocks of scale · scale · Σ quant · quant, for `R` rows of blocks of `SIZE` bytes and `M` rows of activations.
pub(super) fn rows<const M: usize, const R: usize, const SIZE: usize>(
    rows: [&[u8]; R],
    x: Panel<'_, M>,
) -> [[f32; M]; R] {
    if std::arch::is_aarch64_feature_detected!("dotprod") {
        // SAFETY: dot products were detected.
        unsafe { sums::<M, R, SIZE, true>(rows, x) }
    } else {
        // SAFETY: requires only NEON, which this target always has.
        unsafe { sums::<M, R, SIZE, false>(rows, x) }
    }
}

/// # Safety
/// With `DOT`, the processor must have dot products.
#[inline(always)]
unsafe fn sums<const M: usize, const R: usize, const SIZE: usize, const DOT: bool>(
    rows: [&[u8]; R],
    x: Panel<'_, M>,
) -> [[f32; M]; R] {
    let rows = rows.map(|row| row.as_chunks::<SIZE>().0);
    // SAFETY: NEON.
    let mut acc = [[unsafe { vdupq_n_f32(0.0) }; M]; R];
    for (b, x) in x.blocks().enumerate() {
        for (row, acc) in rows.iter().zip(&mut acc) {
            let block = &row[b];
            let (w, scale) = (signed(block), to_f32(scale_bits(block)));
            for (i, acc) in acc.iter_mut().enumerate() {
                let v = words(&x.quants[i]);
                // SAFETY: NEON, and dot products as the caller guarantees.
                unsafe {
                    let first = dot::<DOT>(vdupq_n_s32(0), w[0], v[0]);
                    let products = vcvtq_f32_s32(dot::<DOT>(first, w[1], v[1]));
                    *acc = vfmaq_n_f32(*acc, products, scale * x.scales[i]);
                }
            }
        }
    }
    // SAFETY: NEON.
    acc.map(|acc| acc.map(|acc| unsafe { vaddvq_f32(acc) }))
}

/// Adds sixteen products to four sums.
///
/// # Safety
/// With `DOT`, the processor must have dot products.
#[inline(always)]
unsafe fn dot<const DOT: bool>(acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    if DOT {
        let mut sum = acc;
        // SAFETY: one instruction on registers, which the processor has. Its intrinsic is not stable.
        unsafe {
            asm!(
                ".arch_extension dotprod",
                "sdot {sum:v}.4s, {w:v}.16b, {x:v}.16b",
                sum = inout(vreg) sum, w = in(vreg) w, x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        return sum;
    }
    // SAFETY: NEON. Two products of at most 128 · 127 fit 16 bits.
    unsafe {
        let pairs = vmull_s8(vget_low_s8(w), vget_low_s8(x));
        vpadalq_s16(acc, vmlal_high_s8(pairs, w, x))
    }
}

#[inline(always)]
fn words(x: &[i32; WORDS]) -> [int8x16_t; 2] {
    let bytes: *const i8 = x.as_ptr().cast();
    // SAFETY: 32 bytes.
    unsafe { [vld1q_s8(bytes), vld1q_s8(bytes.add(16))] }
}

/// The quants of a block.
#[inline(always)]
fn signed<const SIZE: usize>(block: &[u8; SIZE]) -> [int8x16_t; 2] {
    let quants = &block[2..];
    if SIZE == Q8_0_BYTES {
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

/// Converts an f16 to f32. The f16 intrinsics are newer than this crate's minimum compiler.
#[inline(always)]
fn to_f32(bits: u16) -> f32 {
    let wide: f32;
    // SAFETY: one instruction on registers, which every 64-bit ARM processor has.
    unsafe {
        asm!("fmov {wide:s}, {bits:w}", "fcvt {wide:s}, {wide:h}", wide = out(vreg) wide, bits = in(reg) u32::from(bits),
            options(pure, nomem, nostack, preserves_flags));
    }
    wide
}
