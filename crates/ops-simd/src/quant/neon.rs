//! The instructions of 64-bit ARM processors that multiply signed bytes. The intrinsics of the newer ones
//! require a later compiler than this crate's minimum.

use core::arch::aarch64::*;
use core::arch::asm;

use crate::simd::Simd;
use crate::simd::neon::Neon;

/// Products of bytes in pairs, by the instructions that every 64-bit ARM processor has.
#[derive(Clone, Copy)]
pub(super) struct Pairs;

/// A value proves that the processor has dot products of bytes (`dotprod`).
#[derive(Clone, Copy)]
pub(super) struct Dots(());

/// A value proves that the processor has products of matrices of bytes (`i8mm`), and `dotprod`.
#[derive(Clone, Copy)]
pub(super) struct Matrices(Dots);

/// Instructions that multiply and add bytes.
pub(super) trait Dot: Copy {
    /// Adds sixteen products to four sums. Which product goes to which sum depends on the instruction.
    fn dot(self, sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t;
}

impl Dot for Pairs {
    #[inline(always)]
    fn dot(self, sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: NEON. Two products of at most 128 · 127 fit 16 bits.
        unsafe {
            let pairs = vmull_s8(vget_low_s8(a), vget_low_s8(b));
            vpadalq_s16(sums, vmlal_high_s8(pairs, a, b))
        }
    }
}

impl Dots {
    /// # Safety
    /// The processor must have `dotprod`.
    #[inline(always)]
    pub(super) unsafe fn new_unchecked() -> Self {
        Self(())
    }

    /// Adds to each sum the products of its four bytes of `a` and word `WORD` of `b`.
    #[inline(always)]
    pub(super) fn dot_word<const WORD: usize>(
        self,
        mut sums: int32x4_t,
        a: int8x16_t,
        b: int8x16_t,
    ) -> int32x4_t {
        // SAFETY: one instruction on registers, which the processor has.
        unsafe {
            asm!(
                ".arch_extension dotprod",
                "sdot {sums:v}.4s, {a:v}.16b, {b:v}.4b[{word}]",
                sums = inout(vreg) sums, a = in(vreg) a, b = in(vreg) b, word = const WORD,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        sums
    }
}

impl Dot for Dots {
    /// Each sum is that of its four bytes.
    #[inline(always)]
    fn dot(self, mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: one instruction on registers, which the processor has.
        unsafe {
            asm!(
                ".arch_extension dotprod",
                "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
                sums = inout(vreg) sums, a = in(vreg) a, b = in(vreg) b,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        sums
    }
}

impl Matrices {
    /// # Safety
    /// The processor must have `i8mm` and `dotprod`.
    #[inline(always)]
    pub(super) unsafe fn new_unchecked() -> Self {
        // SAFETY: the caller guarantees it.
        Self(unsafe { Dots::new_unchecked() })
    }

    /// Dot products, which processors with `i8mm` have as well.
    #[inline(always)]
    pub(super) fn dots(self) -> Dots {
        self.0
    }

    /// Each operand has two rows of eight bytes. Adds to the sums the products of the first row of `a` with both of `b`, then those
    /// of the second.
    #[inline(always)]
    pub(super) fn multiply(self, mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: one instruction on registers, which the processor has.
        unsafe {
            asm!(
                ".arch_extension i8mm",
                "smmla {sums:v}.4s, {a:v}.16b, {b:v}.16b",
                sums = inout(vreg) sums, a = in(vreg) a, b = in(vreg) b,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        sums
    }
}

/// The first halves of both, and the second halves. Turns two vectors of two by two numbers into one for each
/// row, and back.
#[inline(always)]
pub(super) fn halves([a, b]: [int64x2_t; 2]) -> [int64x2_t; 2] {
    // SAFETY: NEON.
    unsafe { [vzip1q_s64(a, b), vzip2q_s64(a, b)] }
}

/// Converts f16 to f32.
#[inline(always)]
pub(super) fn to_f32(bits: uint16x4_t) -> float32x4_t {
    // SAFETY: every processor of this target has NEON.
    unsafe { Neon::new_unchecked() }.f16_to_f32(bits)
}
