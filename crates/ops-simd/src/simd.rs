//! The vector layer: one trait, with one token type per instruction set.

use half::{bf16, f16};

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod pair;
pub(crate) mod portable;

/// The largest [`Simd::LANES`] of any implementation: a scratch array of this size holds one vector.
pub const MAX_LANES: usize = 128;

/// A computation written once over [`Simd`] and compiled for every instruction set.
///
/// `run` and everything that it calls, down to the vector operations, must be `#[inline(always)]`. The instruction set is
/// enabled on the function that [`crate::Isa::run`] calls, so a callee that is not inlined would be compiled for the
/// baseline. Closures are not inlined reliably; use structs.
pub trait VectorFn {
    /// The result of the computation.
    type Output;

    /// Computes with the vectors of `s`.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// A computation over a register tile. The tile has `ROWS` rows of `WIDTH` vectors of accumulators for packed operands, and
/// `DIRECT_ROWS` rows of `DIRECT_WIDTH` vectors for operands read in place, which need an address for each row.
pub trait TileKernel {
    /// The result of the computation.
    type Output;

    /// Computes with the vectors of `s`.
    fn run<
        S: Simd,
        const ROWS: usize,
        const WIDTH: usize,
        const DIRECT_ROWS: usize,
        const DIRECT_WIDTH: usize,
    >(
        self,
        s: S,
    ) -> Self::Output;
}

/// Vectors of one instruction set.
///
/// A value of an implementing type proves that this processor has the instructions, so every method except the pointer ones
/// is safe. Floats are f32; 16-bit floats are held as raw bits in [`Simd::H`].
pub trait Simd: Copy + Send + Sync + 'static {
    /// f32 lanes in a vector.
    const LANES: usize;
    /// f64 lanes in a vector.
    const LANES_F64: usize;
    /// Whether [`Simd::mul_add`] rounds once.
    const FUSED: bool;
    /// Whether elementwise loops compute several vectors at a time. The portable implementation does not: its code is the
    /// slowest to compile, and it runs on processors that nobody tunes for.
    const UNROLLED: bool = true;

    /// [`Simd::LANES`] f32.
    type F: Copy;
    /// [`Simd::LANES`] i32.
    type I: Copy;
    /// [`Simd::LANES`] 16-bit patterns.
    type H: Copy;
    /// [`Simd::LANES`] booleans.
    type M: Copy;
    /// [`Simd::LANES_F64`] f64.
    type D: Copy;

    /// Calls `kernel` with the register tiles that suit this instruction set's register file.
    fn with_tile<K: TileKernel>(self, kernel: K) -> K::Output;

    /// Calls `kernel` in a function compiled for this instruction set.
    fn vectorize<K: VectorFn>(self, kernel: K) -> K::Output;

    /// A vector with `x` in every lane.
    fn splat(self, x: f32) -> Self::F;
    /// Loads the first lanes of `src`. Panics if there are fewer than [`Simd::LANES`].
    fn load(self, src: &[f32]) -> Self::F;
    /// Stores to the first lanes of `dst`. Panics if there are fewer than [`Simd::LANES`].
    fn store(self, dst: &mut [f32], v: Self::F);
    /// `src` in the first lanes and `fill` in the rest; at most [`Simd::LANES`] elements are read.
    #[inline(always)]
    fn load_partial(self, src: &[f32], fill: f32) -> Self::F {
        let mut lanes = [fill; MAX_LANES];
        let n = src.len().min(Self::LANES);
        lanes[..n].copy_from_slice(&src[..n]);
        self.load(&lanes)
    }
    /// Stores as many of the first lanes of `v` as `dst` has elements.
    #[inline(always)]
    fn store_partial(self, dst: &mut [f32], v: Self::F) {
        let mut lanes = [0.0; MAX_LANES];
        self.store(&mut lanes, v);
        let n = dst.len().min(Self::LANES);
        dst[..n].copy_from_slice(&lanes[..n]);
    }
    /// [`Simd::load`] from a pointer.
    ///
    /// # Safety
    /// `src` must be readable for [`Simd::LANES`] f32, at any alignment.
    unsafe fn load_ptr(self, src: *const f32) -> Self::F;
    /// [`Simd::store`] to a pointer.
    ///
    /// # Safety
    /// `dst` must be writable for [`Simd::LANES`] f32, at any alignment.
    unsafe fn store_ptr(self, dst: *mut f32, v: Self::F);

    /// Loads the first 16-bit lanes of `src`. Panics if there are fewer than [`Simd::LANES`].
    fn load_half(self, src: &[u16]) -> Self::H;
    /// Stores to the first 16-bit lanes of `dst`. Panics if there are fewer than [`Simd::LANES`].
    fn store_half(self, dst: &mut [u16], v: Self::H);
    /// [`Simd::load_half`] from a pointer.
    ///
    /// # Safety
    /// `src` must be readable for [`Simd::LANES`] u16, at any alignment.
    unsafe fn load_half_ptr(self, src: *const u16) -> Self::H;
    /// `src` in the first lanes and `fill` in the rest; at most [`Simd::LANES`] elements are read.
    #[inline(always)]
    fn load_half_partial(self, src: &[u16], fill: u16) -> Self::H {
        let mut lanes = [fill; MAX_LANES];
        let n = src.len().min(Self::LANES);
        lanes[..n].copy_from_slice(&src[..n]);
        self.load_half(&lanes)
    }
    /// Stores as many of the first lanes of `v` as `dst` has elements.
    #[inline(always)]
    fn store_half_partial(self, dst: &mut [u16], v: Self::H) {
        let mut lanes = [0; MAX_LANES];
        self.store_half(&mut lanes, v);
        let n = dst.len().min(Self::LANES);
        dst[..n].copy_from_slice(&lanes[..n]);
    }
    /// f16 bits to f32, exactly; a signalling NaN becomes quiet.
    fn f16_to_f32(self, h: Self::H) -> Self::F;
    /// f32 to f16 bits, to nearest, ties to even.
    fn f32_to_f16(self, v: Self::F) -> Self::H;
    /// bf16 bits to f32, exactly.
    fn bf16_to_f32(self, h: Self::H) -> Self::F;
    /// f32 to bf16 bits, to nearest, ties to even; NaN stays NaN and becomes quiet.
    fn f32_to_bf16(self, v: Self::F) -> Self::H;
    /// Loads two vectors from the start of `src`, in an implementation-defined lane order.
    /// Panics if there are fewer than twice [`Simd::LANES`] elements.
    #[inline(always)]
    fn load_two_bf16(self, src: &[u16]) -> [Self::F; 2] {
        [self.bf16_to_f32(self.load_half(src)), self.bf16_to_f32(self.load_half(&src[Self::LANES..]))]
    }
    /// Stores two vectors in the lane order of [`Simd::load_two_bf16`], rounded like [`Simd::f32_to_bf16`].
    #[inline(always)]
    fn store_two_bf16(self, dst: &mut [u16], v: [Self::F; 2]) {
        self.store_half(dst, self.f32_to_bf16(v[0]));
        self.store_half(&mut dst[Self::LANES..], self.f32_to_bf16(v[1]));
    }
    /// Whether the order of [`Simd::load_two_bf16`] equals that of [`Simd::deinterleave`].
    const TWO_DEINTERLEAVED: bool = false;
    /// Like [`Simd::store_two_bf16`], for values that are already approximate: ties may round either way. A NaN must come
    /// from arithmetic on bf16, which leaves the lower half of its bits zero.
    #[inline(always)]
    fn store_two_approx_bf16(self, dst: &mut [u16], v: [Self::F; 2]) {
        self.store_two_bf16(dst, v);
    }
    /// Rounds a vector as [`Simd::store_two_approx_bf16`] does, or to a value that [`Simd::f32_to_bf16`] rounds to the same
    /// result.
    #[inline(always)]
    fn round_approx_bf16(self, v: Self::F) -> Self::F {
        v
    }

    /// a + b
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// a − b
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// a · b
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// a / b
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// a · b + c, rounded once where [`Simd::FUSED`].
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// c − a · b, rounded once where [`Simd::FUSED`].
    fn neg_mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// 1 / a with relative error below 2⁻¹⁴; 0 for ±∞, ±∞ for ±0.
    #[inline(always)]
    fn reciprocal_estimate(self, a: Self::F) -> Self::F {
        self.div(self.splat(1.0), a)
    }
    /// Square root; NaN for negative numbers.
    fn sqrt(self, a: Self::F) -> Self::F;
    /// `a < b ? a : b`: the second operand if either is NaN.
    fn min_raw(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a > b ? a : b`: the second operand if either is NaN.
    fn max_raw(self, a: Self::F, b: Self::F) -> Self::F;
    /// Rounds to the nearest integer, ties to even.
    fn round_even(self, a: Self::F) -> Self::F;
    /// Rounds down to an integer.
    fn floor(self, a: Self::F) -> Self::F;
    /// Rounds up to an integer.
    fn ceil(self, a: Self::F) -> Self::F;
    /// Splits x into a fraction in [0, 1) and an exponent for [`Simd::scale_pow2`], for results within the range of f32.
    #[inline(always)]
    fn split(self, x: Self::F) -> (Self::F, Self::F) {
        // NaN passes through as the second operand.
        let x = self.max_raw(self.splat(-200.0), self.min_raw(self.splat(200.0), x));
        let whole = self.floor(x);
        (self.sub(x, whole), whole)
    }
    /// x · 2ⁿ for integral n in [−250, 250] and x in [0.25, 4], rounded once even if the result is subnormal.
    #[inline(always)]
    fn scale_pow2(self, x: Self::F, n: Self::F) -> Self::F {
        let n = self.to_i32(n);
        let half = self.shr_arith::<1>(n);
        let rest = self.sub_i(n, half);
        let pow = |k| self.from_bits(self.shl::<23>(self.add_i(k, self.splat_i(127))));
        self.mul(self.mul(x, pow(half)), pow(rest))
    }
    /// x · 2ⁿ for integral n, if x and the result are normal.
    #[inline(always)]
    fn add_exponent(self, x: Self::F, n: Self::F) -> Self::F {
        self.from_bits(self.add_i(self.to_bits(x), self.shl::<23>(self.to_i32(n))))
    }
    /// Makes the compiler compute all vectors of `v` before anything that depends on one of them; changes no value. Short of
    /// registers, the compiler would compute one vector after the other, each a long chain of dependent steps.
    #[inline(always)]
    fn together(self, _v: &mut [Self::F]) {}
    /// The remainder of `x` after the nearest multiple of π/2, in [−π/4, π/4], and that multiple.
    /// For |x| ≤ 1e5.
    #[inline(always)]
    fn reduce_half_pi(self, x: Self::F) -> (Self::F, Self::I) {
        // π/2 in three parts of 24 bits: the first product cancels exactly, and the remainder keeps 24 correct bits.
        const HALF_PI: [f32; 3] = [1.570_796_4, -4.371_139e-8, -1.715_124_5e-15];
        let n = self.round_even(self.mul(x, self.splat(std::f32::consts::FRAC_2_PI)));
        let r = self.neg_mul_add(n, self.splat(HALF_PI[0]), x);
        let r = self.neg_mul_add(n, self.splat(HALF_PI[1]), r);
        let r = self.neg_mul_add(n, self.splat(HALF_PI[2]), r);
        (r, self.to_i32(n))
    }

    /// a < b
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// a ≤ b
    fn le(self, a: Self::F, b: Self::F) -> Self::M;
    /// a = b
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    /// a is NaN
    fn is_nan(self, a: Self::F) -> Self::M;
    /// Whether both are true.
    fn both(self, a: Self::M, b: Self::M) -> Self::M;
    /// Whether any lane is true.
    fn any(self, m: Self::M) -> bool;
    /// Whether every lane is true.
    fn all(self, m: Self::M) -> bool;
    /// `yes` where `m` is true, otherwise `no`.
    fn select(self, m: Self::M, yes: Self::F, no: Self::F) -> Self::F;
    /// Whether each of the first lanes of `src` is not zero. Panics if there are fewer than [`Simd::LANES`].
    fn load_mask(self, src: &[u8]) -> Self::M;

    /// The bits of each lane.
    fn to_bits(self, a: Self::F) -> Self::I;
    /// Reinterprets bits as floats.
    #[allow(clippy::wrong_self_convention)]
    fn from_bits(self, a: Self::I) -> Self::F;
    /// A vector with `x` in every lane.
    fn splat_i(self, x: i32) -> Self::I;
    /// a + b, wrapping.
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// a − b, wrapping.
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and.
    fn and_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn or_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise exclusive or.
    fn xor_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Shift left by `N` bits.
    fn shl<const N: u32>(self, a: Self::I) -> Self::I;
    /// Shift right by `N` bits, preserving the sign.
    fn shr_arith<const N: u32>(self, a: Self::I) -> Self::I;
    /// a = b
    fn eq_i(self, a: Self::I, b: Self::I) -> Self::M;
    /// Rounds to the nearest integer, ties to even; unspecified if out of range.
    fn to_i32(self, a: Self::F) -> Self::I;
    /// Converts to the nearest f32.
    #[allow(clippy::wrong_self_convention)]
    fn from_i32(self, a: Self::I) -> Self::F;

    /// |a|
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        self.from_bits(self.and_i(self.to_bits(a), self.splat_i(0x7fff_ffff)))
    }
    /// −a
    #[inline(always)]
    fn neg(self, a: Self::F) -> Self::F {
        self.from_bits(self.xor_i(self.to_bits(a), self.splat_i(i32::MIN)))
    }
    /// `magnitude`, which must not be negative, with the sign of `sign`.
    #[inline(always)]
    fn with_sign_of(self, magnitude: Self::F, sign: Self::F) -> Self::F {
        let sign = self.and_i(self.to_bits(sign), self.splat_i(i32::MIN));
        self.from_bits(self.or_i(self.to_bits(magnitude), sign))
    }
    /// The larger; NaN if either is NaN.
    #[inline(always)]
    fn maximum(self, a: Self::F, b: Self::F) -> Self::F {
        self.select(self.is_nan(a), a, self.max_raw(a, b))
    }
    /// The smaller; NaN if either is NaN.
    #[inline(always)]
    fn minimum(self, a: Self::F, b: Self::F) -> Self::F {
        self.select(self.is_nan(a), a, self.min_raw(a, b))
    }

    /// The sum of the lanes.
    fn reduce_add(self, a: Self::F) -> f32;
    /// The largest lane; NaN if any is NaN.
    #[inline(always)]
    fn reduce_maximum(self, a: Self::F) -> f32 {
        let mut lanes = [f32::NEG_INFINITY; MAX_LANES];
        self.store(&mut lanes, a);
        lanes.into_iter().fold(f32::NEG_INFINITY, |m, x| if x > m || x.is_nan() { x } else { m })
    }
    /// The lanes of even and of odd index of the concatenation of `a` and `b`.
    fn deinterleave(self, a: Self::F, b: Self::F) -> (Self::F, Self::F);
    /// The inverse of [`Simd::deinterleave`].
    fn interleave(self, even: Self::F, odd: Self::F) -> (Self::F, Self::F);

    /// Copies `src` to `dst`, with non-temporal stores if the instruction set has them. Panics if the lengths differ.
    ///
    /// # Safety
    /// [`Simd::fence`] must follow before anything else accesses `dst`.
    #[inline(always)]
    unsafe fn stream_copy(self, src: &[u8], dst: &mut [u8]) {
        dst.copy_from_slice(src);
    }
    /// Prefetches the cache line of an address; the address may be invalid.
    #[inline(always)]
    fn prefetch<T>(self, _address: *const T) {}
    /// Prefetches into the L2 cache.
    #[inline(always)]
    fn prefetch_far<T>(self, _address: *const T) {}
    /// Orders streamed stores before later ones.
    #[inline(always)]
    fn fence(self) {}

    /// A vector with `x` in every lane.
    fn splat_f64(self, x: f64) -> Self::D;
    /// Loads a vector from `src`.
    ///
    /// # Safety
    /// `src` must be readable for [`Simd::LANES_F64`] f64, at any alignment.
    unsafe fn load_f64_ptr(self, src: *const f64) -> Self::D;
    /// Stores a vector to `dst`.
    ///
    /// # Safety
    /// `dst` must be writable for [`Simd::LANES_F64`] f64, at any alignment.
    unsafe fn store_f64_ptr(self, dst: *mut f64, v: Self::D);
    /// a + b
    fn add_f64(self, a: Self::D, b: Self::D) -> Self::D;
    /// a · b + c
    fn mul_add_f64(self, a: Self::D, b: Self::D, c: Self::D) -> Self::D;
}

/// The bits of a slice of f16.
#[inline(always)]
pub(crate) fn f16_bits(x: &[f16]) -> &[u16] {
    bytemuck::cast_slice(x)
}

/// The bits of a slice of bf16.
#[inline(always)]
pub(crate) fn bf16_bits(x: &[bf16]) -> &[u16] {
    bytemuck::cast_slice(x)
}
