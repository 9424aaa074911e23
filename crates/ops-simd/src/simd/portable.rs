//! Arrays of four lanes, which the compiler maps to the baseline's vectors.

use super::{Simd, TileKernel, VectorFn};
use crate::math;

/// Four lanes in plain Rust.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// Adding then subtracting this rounds a smaller positive number to an integer, ties to even.
const TWO_23: f32 = 8_388_608.0;
/// Adding this to a number below 2²² in magnitude leaves it, rounded, in the low bits.
const ROUND_MAGIC: f32 = 12_582_912.0;
const N: usize = 4;

// A loop, because `array::from_fn` and `array::map` compile to ten small functions each, for every closure.
#[inline(always)]
fn lanes<R: Copy + Default, const LANES: usize>(f: impl Fn(usize) -> R) -> [R; LANES] {
    let mut out = [R::default(); LANES];
    let mut i = 0;
    while i < LANES {
        out[i] = f(i);
        i += 1;
    }
    out
}

#[inline(always)]
fn each<A: Copy, R: Copy + Default>(a: [A; N], f: impl Fn(A) -> R) -> [R; N] {
    lanes(|i| f(a[i]))
}

#[inline(always)]
fn zip<A: Copy, B: Copy, R: Copy + Default>(a: [A; N], b: [B; N], f: impl Fn(A, B) -> R) -> [R; N] {
    lanes(|i| f(a[i], b[i]))
}

// Conversions of a vector are calls: inlined at every use, they would be most of the code of this variant.
#[inline(never)]
fn four_from_f16(h: [u16; N]) -> [f32; N] {
    each(h, f16_bits_to_f32)
}
#[inline(never)]
fn four_to_f16(v: [f32; N]) -> [u16; N] {
    each(v, f32_to_f16_bits)
}
#[inline(never)]
fn four_to_bf16(v: [f32; N]) -> [u16; N] {
    each(v, f32_to_bf16_bits)
}

/// f16 bits to f32, exactly.
#[inline(always)]
pub(crate) fn f16_bits_to_f32(h: u16) -> f32 {
    let sign = u32::from(h & 0x8000) << 16;
    let magnitude = u32::from(h & 0x7fff) << 13;
    // The exponent is 112 too small. Multiplying corrects it and also normalises subnormals.
    let finite = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let quiet = u32::from(magnitude > 0x0f80_0000) << 22;
    let special = magnitude | 0x7f80_0000 | quiet;
    f32::from_bits(sign | if magnitude >= 0x0f80_0000 { special } else { finite })
}

/// f32 to f16 bits, to nearest, ties to even.
#[inline(always)]
pub(crate) fn f32_to_f16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let sign = (bits >> 16) as u16 & 0x8000;
    // Below 2⁻¹⁴, adding 1/2 leaves the rounded multiples of 2⁻²⁴ in the low bits.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let normal = (magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + ((magnitude >> 13) & 1))) >> 13;
    let nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    let out = if magnitude > 0x7f80_0000 {
        nan
    } else if magnitude >= 0x4780_0000 {
        0x7c00
    } else if magnitude < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    sign | out as u16
}

/// f32 to bf16 bits, to nearest, ties to even; NaN becomes quiet.
#[inline(always)]
pub(crate) fn f32_to_bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    let out = if x.is_nan() { bits | 0x0040_0000 } else { rounded };
    (out >> 16) as u16
}

impl Simd for Portable {
    const LANES: usize = N;
    const LANES_F64: usize = 2;
    const FUSED: bool = cfg!(target_arch = "aarch64");
    const UNROLLED: bool = false;

    type F = [f32; N];
    type I = [i32; N];
    type H = [u16; N];
    type M = [bool; N];
    type D = [f64; 2];

    // One copy instead of one for every caller.
    #[inline(never)]
    fn vectorize<K: VectorFn>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn with_tile<K: TileKernel>(self, kernel: K) -> K::Output {
        kernel.run::<Self, 4, 2, 4, 2>(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> [f32; N] {
        [x; N]
    }
    #[inline(always)]
    fn load(self, src: &[f32]) -> [f32; N] {
        lanes(|i| src[i])
    }
    #[inline(always)]
    fn store(self, dst: &mut [f32], v: [f32; N]) {
        dst[..N].copy_from_slice(&v);
    }
    #[inline(always)]
    unsafe fn load_ptr(self, src: *const f32) -> [f32; N] {
        // SAFETY: the caller guarantees N readable f32 at any alignment.
        unsafe { src.cast::<[f32; N]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, dst: *mut f32, v: [f32; N]) {
        // SAFETY: the caller guarantees N writable f32 at any alignment.
        unsafe { dst.cast::<[f32; N]>().write_unaligned(v) }
    }

    #[inline(always)]
    fn load_half(self, src: &[u16]) -> [u16; N] {
        lanes(|i| src[i])
    }
    #[inline(always)]
    fn store_half(self, dst: &mut [u16], v: [u16; N]) {
        dst[..N].copy_from_slice(&v);
    }
    #[inline(always)]
    unsafe fn load_half_ptr(self, src: *const u16) -> [u16; N] {
        // SAFETY: the caller guarantees N readable u16 at any alignment.
        unsafe { src.cast::<[u16; N]>().read_unaligned() }
    }
    #[inline(always)]
    fn f16_to_f32(self, h: [u16; N]) -> [f32; N] {
        four_from_f16(h)
    }
    #[inline(always)]
    fn f32_to_f16(self, v: [f32; N]) -> [u16; N] {
        four_to_f16(v)
    }
    #[inline(always)]
    fn bf16_to_f32(self, h: [u16; N]) -> [f32; N] {
        each(h, |h| f32::from_bits(u32::from(h) << 16))
    }
    #[inline(always)]
    fn f32_to_bf16(self, v: [f32; N]) -> [u16; N] {
        four_to_bf16(v)
    }

    #[inline(always)]
    fn add(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        zip(a, b, |a, b| a / b)
    }
    // On the x86-64 baseline, f32::mul_add would be a library call.
    #[inline(always)]
    fn mul_add(self, a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
        lanes(|i| if Self::FUSED { a[i].mul_add(b[i], c[i]) } else { a[i] * b[i] + c[i] })
    }
    #[inline(always)]
    fn neg_mul_add(self, a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
        lanes(|i| if Self::FUSED { (-a[i]).mul_add(b[i], c[i]) } else { c[i] - a[i] * b[i] })
    }
    #[inline(always)]
    fn sqrt(self, a: [f32; N]) -> [f32; N] {
        each(a, f32::sqrt)
    }
    #[inline(always)]
    fn min_raw(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max_raw(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn round_even(self, a: [f32; N]) -> [f32; N] {
        each(a, |x| {
            // From 2²³ on every f32 is an integer.
            let magnitude = x.abs();
            let rounded = ((magnitude + TWO_23) - TWO_23).copysign(x);
            if magnitude < TWO_23 { rounded } else { x }
        })
    }
    #[inline(always)]
    fn floor(self, a: [f32; N]) -> [f32; N] {
        zip(a, self.round_even(a), |x, near| (if near > x { near - 1.0 } else { near }).copysign(x))
    }
    #[inline(always)]
    fn ceil(self, a: [f32; N]) -> [f32; N] {
        zip(a, self.round_even(a), |x, near| (if near < x { near + 1.0 } else { near }).copysign(x))
    }
    // Without a fused multiply-add, a reduction in f32 loses the small remainders.
    #[inline(always)]
    fn reduce_half_pi(self, x: [f32; N]) -> ([f32; N], [i32; N]) {
        let pairs = each(x, math::trig::reduce_in_f64);
        (each(pairs, |p| p.0), each(pairs, |p| p.1))
    }

    #[inline(always)]
    fn lt(self, a: [f32; N], b: [f32; N]) -> [bool; N] {
        zip(a, b, |a, b| a < b)
    }
    #[inline(always)]
    fn le(self, a: [f32; N], b: [f32; N]) -> [bool; N] {
        zip(a, b, |a, b| a <= b)
    }
    #[inline(always)]
    fn eq(self, a: [f32; N], b: [f32; N]) -> [bool; N] {
        zip(a, b, |a, b| a == b)
    }
    #[inline(always)]
    fn is_nan(self, a: [f32; N]) -> [bool; N] {
        each(a, f32::is_nan)
    }
    #[inline(always)]
    fn both(self, a: [bool; N], b: [bool; N]) -> [bool; N] {
        zip(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn all(self, m: [bool; N]) -> bool {
        m.into_iter().fold(true, |all, m| all & m)
    }
    #[inline(always)]
    fn any(self, m: [bool; N]) -> bool {
        m.into_iter().fold(false, |any, m| any | m)
    }
    #[inline(always)]
    fn select(self, m: [bool; N], yes: [f32; N], no: [f32; N]) -> [f32; N] {
        lanes(|i| if m[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    fn load_mask(self, src: &[u8]) -> [bool; N] {
        lanes(|i| src[i] != 0)
    }

    #[inline(always)]
    fn to_bits(self, a: [f32; N]) -> [i32; N] {
        each(a, |x| x.to_bits() as i32)
    }
    #[inline(always)]
    fn from_bits(self, a: [i32; N]) -> [f32; N] {
        each(a, |x| f32::from_bits(x as u32))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> [i32; N] {
        [x; N]
    }
    #[inline(always)]
    fn add_i(self, a: [i32; N], b: [i32; N]) -> [i32; N] {
        zip(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    fn sub_i(self, a: [i32; N], b: [i32; N]) -> [i32; N] {
        zip(a, b, i32::wrapping_sub)
    }
    #[inline(always)]
    fn and_i(self, a: [i32; N], b: [i32; N]) -> [i32; N] {
        zip(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or_i(self, a: [i32; N], b: [i32; N]) -> [i32; N] {
        zip(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn xor_i(self, a: [i32; N], b: [i32; N]) -> [i32; N] {
        zip(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    fn shl<const S: u32>(self, a: [i32; N]) -> [i32; N] {
        each(a, |a| a << S)
    }
    #[inline(always)]
    fn shr_arith<const S: u32>(self, a: [i32; N]) -> [i32; N] {
        each(a, |a| a >> S)
    }
    #[inline(always)]
    fn eq_i(self, a: [i32; N], b: [i32; N]) -> [bool; N] {
        zip(a, b, |a, b| a == b)
    }
    #[inline(always)]
    fn to_i32(self, a: [f32; N]) -> [i32; N] {
        // The magic number leaves the integer in the low bits, without saturation.
        each(a, |x| ((x + ROUND_MAGIC).to_bits() as i32).wrapping_sub(ROUND_MAGIC.to_bits() as i32))
    }
    #[inline(always)]
    fn from_i32(self, a: [i32; N]) -> [f32; N] {
        each(a, |a| a as f32)
    }

    #[inline(always)]
    fn reduce_add(self, a: [f32; N]) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }
    #[inline(always)]
    fn deinterleave(self, a: [f32; N], b: [f32; N]) -> ([f32; N], [f32; N]) {
        ([a[0], a[2], b[0], b[2]], [a[1], a[3], b[1], b[3]])
    }
    #[inline(always)]
    fn interleave(self, e: [f32; N], o: [f32; N]) -> ([f32; N], [f32; N]) {
        ([e[0], o[0], e[1], o[1]], [e[2], o[2], e[3], o[3]])
    }

    #[inline(always)]
    fn splat_f64(self, x: f64) -> [f64; 2] {
        [x; 2]
    }
    #[inline(always)]
    unsafe fn load_f64_ptr(self, src: *const f64) -> [f64; 2] {
        // SAFETY: the caller guarantees 2 readable f64 at any alignment.
        unsafe { src.cast::<[f64; 2]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_f64_ptr(self, dst: *mut f64, v: [f64; 2]) {
        // SAFETY: the caller guarantees 2 writable f64 at any alignment.
        unsafe { dst.cast::<[f64; 2]>().write_unaligned(v) }
    }
    #[inline(always)]
    fn add_f64(self, a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
        lanes(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn mul_add_f64(self, a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> [f64; 2] {
        lanes(|i| a[i] * b[i] + c[i])
    }
}
