//! NEON, which every 64-bit ARM processor has.

use core::arch::aarch64::*;
use core::arch::asm;

use super::{Simd, TileKernel, VectorFn};

/// Proof of NEON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

impl Neon {
    /// # Safety
    /// The processor must have neon.
    #[inline(always)]
    pub(crate) unsafe fn new_unchecked() -> Self {
        Self(())
    }

    // One copy instead of one for every caller.
    #[inline(never)]
    #[target_feature(enable = "neon")]
    fn call<K: VectorFn>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

/// Calls intrinsics that need only the features that the token proves and that access no memory.
macro_rules! pure {
    ($e:expr) => {{
        // SAFETY: `self` proves the features, and these intrinsics access no memory.
        #[allow(unused_unsafe)]
        unsafe {
            $e
        }
    }};
}

impl Simd for Neon {
    const LANES: usize = 4;
    const LANES_F64: usize = 2;
    const FUSED: bool = true;
    const TWO_DEINTERLEAVED: bool = true;

    type F = float32x4_t;
    type I = int32x4_t;
    type H = uint16x4_t;
    type M = uint32x4_t;
    type D = float64x2_t;

    #[inline(always)]
    fn vectorize<K: VectorFn>(self, kernel: K) -> K::Output {
        pure!(self.call(kernel))
    }

    #[inline(always)]
    fn with_tile<K: TileKernel>(self, kernel: K) -> K::Output {
        kernel.run::<Self, 8, 2, 4, 4>(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> float32x4_t {
        pure!(vdupq_n_f32(x))
    }
    #[inline(always)]
    fn load(self, src: &[f32]) -> float32x4_t {
        assert!(src.len() >= 4);
        // SAFETY: 4 f32 are readable, checked above.
        unsafe { self.load_ptr(src.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, dst: &mut [f32], v: float32x4_t) {
        assert!(dst.len() >= 4);
        // SAFETY: 4 f32 are writable, checked above.
        unsafe { self.store_ptr(dst.as_mut_ptr(), v) }
    }
    #[inline(always)]
    unsafe fn load_ptr(self, src: *const f32) -> float32x4_t {
        // SAFETY: the caller guarantees 4 readable f32; `self` proves the features.
        unsafe { vld1q_f32(src) }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, dst: *mut f32, v: float32x4_t) {
        // SAFETY: the caller guarantees 4 writable f32; `self` proves the features.
        unsafe { vst1q_f32(dst, v) }
    }

    #[inline(always)]
    fn load_half(self, src: &[u16]) -> uint16x4_t {
        assert!(src.len() >= 4);
        // SAFETY: 4 u16 are readable, checked above.
        unsafe { self.load_half_ptr(src.as_ptr()) }
    }
    #[inline(always)]
    fn store_half(self, dst: &mut [u16], v: uint16x4_t) {
        assert!(dst.len() >= 4);
        // SAFETY: 4 u16 are writable, checked above; `self` proves the features.
        unsafe { vst1_u16(dst.as_mut_ptr(), v) }
    }
    #[inline(always)]
    unsafe fn load_half_ptr(self, src: *const u16) -> uint16x4_t {
        // SAFETY: the caller guarantees 4 readable u16; `self` proves the features.
        unsafe { vld1_u16(src) }
    }
    // The f16 intrinsics are newer than this crate's minimum compiler; the instructions are part of NEON.
    #[inline(always)]
    fn f16_to_f32(self, h: uint16x4_t) -> float32x4_t {
        let v: float32x4_t;
        // SAFETY: one instruction on registers; `self` proves the features.
        unsafe {
            asm!("fcvtl {v:v}.4s, {h:v}.4h", v = lateout(vreg) v, h = in(vreg) h, options(pure, nomem, nostack, preserves_flags));
        }
        v
    }
    #[inline(always)]
    fn f32_to_f16(self, v: float32x4_t) -> uint16x4_t {
        let h: uint16x4_t;
        // SAFETY: one instruction on registers; `self` proves the features.
        unsafe {
            asm!("fcvtn {h:v}.4h, {v:v}.4s", h = lateout(vreg) h, v = in(vreg) v, options(pure, nomem, nostack, preserves_flags));
        }
        h
    }
    #[inline(always)]
    fn bf16_to_f32(self, h: uint16x4_t) -> float32x4_t {
        pure!(vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(h))))
    }
    #[inline(always)]
    fn f32_to_bf16(self, v: float32x4_t) -> uint16x4_t {
        pure!(vshrn_n_u32::<16>(round_to_bf16(v)))
    }
    // Words of even index go to one vector and those of odd index to the other. A shift and a mask widen them; one
    // instruction narrows them.
    #[inline(always)]
    fn load_two_bf16(self, src: &[u16]) -> [float32x4_t; 2] {
        assert!(src.len() >= 8);
        // SAFETY: 8 u16 are readable, checked above; `self` proves the features.
        let words = unsafe { vreinterpretq_u32_u16(vld1q_u16(src.as_ptr())) };
        pure!({
            let odd = vandq_u32(words, vdupq_n_u32(!0xffff));
            [vreinterpretq_f32_u32(vshlq_n_u32::<16>(words)), vreinterpretq_f32_u32(odd)]
        })
    }
    #[inline(always)]
    fn store_two_bf16(self, dst: &mut [u16], v: [float32x4_t; 2]) {
        store_high_words(dst, [round_to_bf16(v[0]), round_to_bf16(v[1])]);
    }
    #[inline(always)]
    fn store_two_approx_bf16(self, dst: &mut [u16], v: [float32x4_t; 2]) {
        store_high_words(dst, [half_up(v[0]), half_up(v[1])]);
    }
    #[inline(always)]
    fn round_approx_bf16(self, v: float32x4_t) -> float32x4_t {
        pure!(vreinterpretq_f32_u32(vandq_u32(half_up(v), vdupq_n_u32(!0xffff))))
    }

    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        pure!(vaddq_f32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        pure!(vsubq_f32(a, b))
    }
    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        pure!(vmulq_f32(a, b))
    }
    #[inline(always)]
    fn div(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        pure!(vdivq_f32(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        pure!(vfmaq_f32(c, a, b))
    }
    #[inline(always)]
    fn neg_mul_add(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        pure!(vfmsq_f32(c, a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: float32x4_t) -> float32x4_t {
        pure!(vsqrtq_f32(a))
    }
    #[inline(always)]
    fn min_raw(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        pure!(vbslq_f32(vcltq_f32(a, b), a, b))
    }
    #[inline(always)]
    fn max_raw(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        pure!(vbslq_f32(vcgtq_f32(a, b), a, b))
    }
    #[inline(always)]
    fn maximum(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        pure!(vmaxq_f32(a, b))
    }
    #[inline(always)]
    fn minimum(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        pure!(vminq_f32(a, b))
    }
    #[inline(always)]
    fn round_even(self, a: float32x4_t) -> float32x4_t {
        pure!(vrndnq_f32(a))
    }
    #[inline(always)]
    fn floor(self, a: float32x4_t) -> float32x4_t {
        pure!(vrndmq_f32(a))
    }
    #[inline(always)]
    fn ceil(self, a: float32x4_t) -> float32x4_t {
        pure!(vrndpq_f32(a))
    }

    #[inline(always)]
    fn lt(self, a: float32x4_t, b: float32x4_t) -> uint32x4_t {
        pure!(vcltq_f32(a, b))
    }
    #[inline(always)]
    fn le(self, a: float32x4_t, b: float32x4_t) -> uint32x4_t {
        pure!(vcleq_f32(a, b))
    }
    #[inline(always)]
    fn eq(self, a: float32x4_t, b: float32x4_t) -> uint32x4_t {
        pure!(vceqq_f32(a, b))
    }
    #[inline(always)]
    fn is_nan(self, a: float32x4_t) -> uint32x4_t {
        pure!(vmvnq_u32(vceqq_f32(a, a)))
    }
    #[inline(always)]
    fn both(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        pure!(vandq_u32(a, b))
    }
    #[inline(always)]
    fn all(self, m: uint32x4_t) -> bool {
        pure!(vminvq_u32(m) != 0)
    }
    #[inline(always)]
    fn any(self, m: uint32x4_t) -> bool {
        pure!(vmaxvq_u32(m) != 0)
    }
    #[inline(always)]
    fn select(self, m: uint32x4_t, yes: float32x4_t, no: float32x4_t) -> float32x4_t {
        pure!(vbslq_f32(m, yes, no))
    }
    #[inline(always)]
    fn load_mask(self, src: &[u8]) -> uint32x4_t {
        let bytes = u32::from_le_bytes([src[0], src[1], src[2], src[3]]);
        pure!({
            let words = vget_low_u16(vmovl_u8(vcreate_u8(u64::from(bytes))));
            vcgtq_u32(vmovl_u16(words), vdupq_n_u32(0))
        })
    }

    #[inline(always)]
    fn to_bits(self, a: float32x4_t) -> int32x4_t {
        pure!(vreinterpretq_s32_f32(a))
    }
    #[inline(always)]
    fn from_bits(self, a: int32x4_t) -> float32x4_t {
        pure!(vreinterpretq_f32_s32(a))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> int32x4_t {
        pure!(vdupq_n_s32(x))
    }
    #[inline(always)]
    fn add_i(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        pure!(vaddq_s32(a, b))
    }
    #[inline(always)]
    fn sub_i(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        pure!(vsubq_s32(a, b))
    }
    #[inline(always)]
    fn and_i(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        pure!(vandq_s32(a, b))
    }
    #[inline(always)]
    fn or_i(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        pure!(vorrq_s32(a, b))
    }
    #[inline(always)]
    fn xor_i(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        pure!(veorq_s32(a, b))
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: int32x4_t) -> int32x4_t {
        pure!(vshlq_s32(a, vdupq_n_s32(N as i32)))
    }
    #[inline(always)]
    fn shr_arith<const N: u32>(self, a: int32x4_t) -> int32x4_t {
        // A shift left by a negative count.
        pure!(vshlq_s32(a, vdupq_n_s32(-(N as i32))))
    }
    #[inline(always)]
    fn eq_i(self, a: int32x4_t, b: int32x4_t) -> uint32x4_t {
        pure!(vceqq_s32(a, b))
    }
    #[inline(always)]
    fn to_i32(self, a: float32x4_t) -> int32x4_t {
        pure!(vcvtnq_s32_f32(a))
    }
    #[inline(always)]
    fn from_i32(self, a: int32x4_t) -> float32x4_t {
        pure!(vcvtq_f32_s32(a))
    }
    #[inline(always)]
    fn abs(self, a: float32x4_t) -> float32x4_t {
        pure!(vabsq_f32(a))
    }
    #[inline(always)]
    fn neg(self, a: float32x4_t) -> float32x4_t {
        pure!(vnegq_f32(a))
    }

    #[inline(always)]
    fn reduce_add(self, a: float32x4_t) -> f32 {
        pure!(vaddvq_f32(a))
    }
    #[inline(always)]
    fn reduce_maximum(self, a: float32x4_t) -> f32 {
        pure!(vmaxvq_f32(a))
    }
    #[inline(always)]
    fn deinterleave(self, a: float32x4_t, b: float32x4_t) -> (float32x4_t, float32x4_t) {
        pure!((vuzp1q_f32(a, b), vuzp2q_f32(a, b)))
    }
    #[inline(always)]
    fn interleave(self, even: float32x4_t, odd: float32x4_t) -> (float32x4_t, float32x4_t) {
        pure!((vzip1q_f32(even, odd), vzip2q_f32(even, odd)))
    }

    #[inline(always)]
    fn prefetch<T>(self, address: *const T) {
        // SAFETY: a hint, which does not fault at any address.
        unsafe { asm!("prfm pldl1keep, [{0}]", in(reg) address, options(readonly, nostack, preserves_flags)) }
    }
    #[inline(always)]
    fn prefetch_far<T>(self, address: *const T) {
        // SAFETY: a hint, which does not fault at any address.
        unsafe { asm!("prfm pldl2keep, [{0}]", in(reg) address, options(readonly, nostack, preserves_flags)) }
    }

    #[inline(always)]
    fn splat_f64(self, x: f64) -> float64x2_t {
        pure!(vdupq_n_f64(x))
    }
    #[inline(always)]
    unsafe fn load_f64_ptr(self, src: *const f64) -> float64x2_t {
        // SAFETY: the caller guarantees 2 readable f64; `self` proves the features.
        unsafe { vld1q_f64(src) }
    }
    #[inline(always)]
    unsafe fn store_f64_ptr(self, dst: *mut f64, v: float64x2_t) {
        // SAFETY: the caller guarantees 2 writable f64; `self` proves the features.
        unsafe { vst1q_f64(dst, v) }
    }
    #[inline(always)]
    fn add_f64(self, a: float64x2_t, b: float64x2_t) -> float64x2_t {
        pure!(vaddq_f64(a, b))
    }
    #[inline(always)]
    fn mul_add_f64(self, a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t {
        pure!(vfmaq_f64(c, a, b))
    }
}

/// Rounds to bf16, to nearest, ties to even, in the upper half of each lane.
#[inline(always)]
fn round_to_bf16(v: float32x4_t) -> uint32x4_t {
    pure!({
        let bits = vreinterpretq_u32_f32(v);
        let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
        let rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        let quiet = vorrq_u32(bits, vdupq_n_u32(0x0040_0000));
        vbslq_u32(vceqq_f32(v, v), rounded, quiet)
    })
}

/// Rounds to bf16, to nearest, ties away from zero, in the upper half of each lane. A NaN must have a zero lower half.
#[inline(always)]
fn half_up(v: float32x4_t) -> uint32x4_t {
    pure!(vaddq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(0x8000)))
}

/// Stores the upper halves of the lanes: those of the first vector at even indices, those of the second at odd ones.
#[inline(always)]
fn store_high_words(dst: &mut [u16], v: [uint32x4_t; 2]) {
    assert!(dst.len() >= 8);
    // SAFETY: 8 u16 are writable, checked above; NEON is part of this target.
    unsafe { vst1q_u16(dst.as_mut_ptr(), vreinterpretq_u16_u32(vsriq_n_u32::<16>(v[1], v[0]))) }
}
