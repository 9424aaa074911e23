//! Two vectors as one with twice the lanes. Each operation is two independent instructions, so a long chain of operations
//! on one vector does not stall on its own latency.

use super::{Simd, TileKernel, VectorFn};

/// Pairs of vectors of `S`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<S>(pub(crate) S);

impl<S: Simd> Simd for Pair<S> {
    const LANES: usize = 2 * S::LANES;
    const LANES_F64: usize = 2 * S::LANES_F64;
    const FUSED: bool = S::FUSED;

    type F = [S::F; 2];
    type I = [S::I; 2];
    type H = [S::H; 2];
    type M = [S::M; 2];
    type D = [S::D; 2];

    #[inline(always)]
    fn vectorize<K: VectorFn>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn with_tile<K: TileKernel>(self, kernel: K) -> K::Output {
        kernel.run::<Self, 2, 1, 2, 1>(self)
    }

    #[inline(always)]
    fn load(self, src: &[f32]) -> Self::F {
        let (a, b) = src[..Self::LANES].split_at(S::LANES);
        [self.0.load(a), self.0.load(b)]
    }
    #[inline(always)]
    fn store(self, dst: &mut [f32], v: Self::F) {
        let (a, b) = dst[..Self::LANES].split_at_mut(S::LANES);
        self.0.store(a, v[0]);
        self.0.store(b, v[1]);
    }
    #[inline(always)]
    unsafe fn load_ptr(self, src: *const f32) -> Self::F {
        // SAFETY: the caller guarantees twice the lanes.
        unsafe { [self.0.load_ptr(src), self.0.load_ptr(src.add(S::LANES))] }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, dst: *mut f32, v: Self::F) {
        // SAFETY: the caller guarantees twice the lanes.
        unsafe {
            self.0.store_ptr(dst, v[0]);
            self.0.store_ptr(dst.add(S::LANES), v[1]);
        }
    }
    #[inline(always)]
    fn load_half(self, src: &[u16]) -> Self::H {
        let (a, b) = src[..Self::LANES].split_at(S::LANES);
        [self.0.load_half(a), self.0.load_half(b)]
    }
    #[inline(always)]
    fn store_half(self, dst: &mut [u16], v: Self::H) {
        let (a, b) = dst[..Self::LANES].split_at_mut(S::LANES);
        self.0.store_half(a, v[0]);
        self.0.store_half(b, v[1]);
    }
    #[inline(always)]
    unsafe fn load_half_ptr(self, src: *const u16) -> Self::H {
        // SAFETY: the caller guarantees twice the lanes.
        unsafe { [self.0.load_half_ptr(src), self.0.load_half_ptr(src.add(S::LANES))] }
    }
    #[inline(always)]
    fn split(self, x: Self::F) -> (Self::F, Self::F) {
        let ((a, m), (b, n)) = (self.0.split(x[0]), self.0.split(x[1]));
        ([a, b], [m, n])
    }
    #[inline(always)]
    fn reciprocal_estimate(self, a: Self::F) -> Self::F {
        [self.0.reciprocal_estimate(a[0]), self.0.reciprocal_estimate(a[1])]
    }
    #[inline(always)]
    fn load_mask(self, src: &[u8]) -> Self::M {
        let (a, b) = src[..Self::LANES].split_at(S::LANES);
        [self.0.load_mask(a), self.0.load_mask(b)]
    }
    #[inline(always)]
    fn all(self, m: Self::M) -> bool {
        self.0.all(m[0]) && self.0.all(m[1])
    }
    #[inline(always)]
    fn any(self, m: Self::M) -> bool {
        self.0.any(m[0]) || self.0.any(m[1])
    }
    #[inline(always)]
    fn reduce_add(self, a: Self::F) -> f32 {
        self.0.reduce_add(self.0.add(a[0], a[1]))
    }
    #[inline(always)]
    fn reduce_half_pi(self, x: Self::F) -> (Self::F, Self::I) {
        let ((a, p), (b, q)) = (self.0.reduce_half_pi(x[0]), self.0.reduce_half_pi(x[1]));
        ([a, b], [p, q])
    }
    #[inline(always)]
    fn deinterleave(self, a: Self::F, b: Self::F) -> (Self::F, Self::F) {
        let ((e, o), (f, p)) = (self.0.deinterleave(a[0], a[1]), self.0.deinterleave(b[0], b[1]));
        ([e, f], [o, p])
    }
    #[inline(always)]
    fn interleave(self, even: Self::F, odd: Self::F) -> (Self::F, Self::F) {
        let ((a, b), (c, d)) = (self.0.interleave(even[0], odd[0]), self.0.interleave(even[1], odd[1]));
        ([a, b], [c, d])
    }
    #[inline(always)]
    unsafe fn stream_copy(self, src: &[u8], dst: &mut [u8]) {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.0.stream_copy(src, dst) }
    }
    #[inline(always)]
    fn fence(self) {
        self.0.fence();
    }
    #[inline(always)]
    fn prefetch<T>(self, address: *const T) {
        self.0.prefetch(address);
    }
    #[inline(always)]
    fn prefetch_far<T>(self, address: *const T) {
        self.0.prefetch_far(address);
    }
    #[inline(always)]
    unsafe fn load_f64_ptr(self, src: *const f64) -> Self::D {
        // SAFETY: the caller guarantees twice the lanes.
        unsafe { [self.0.load_f64_ptr(src), self.0.load_f64_ptr(src.add(S::LANES_F64))] }
    }
    #[inline(always)]
    unsafe fn store_f64_ptr(self, dst: *mut f64, v: Self::D) {
        // SAFETY: the caller guarantees twice the lanes.
        unsafe {
            self.0.store_f64_ptr(dst, v[0]);
            self.0.store_f64_ptr(dst.add(S::LANES_F64), v[1]);
        }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [self.0.splat(x); 2]
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        [self.0.splat_i(x); 2]
    }
    #[inline(always)]
    fn splat_f64(self, x: f64) -> Self::D {
        [self.0.splat_f64(x); 2]
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.add(a[0], b[0]), self.0.add(a[1], b[1])]
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.sub(a[0], b[0]), self.0.sub(a[1], b[1])]
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.mul(a[0], b[0]), self.0.mul(a[1], b[1])]
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.div(a[0], b[0]), self.0.div(a[1], b[1])]
    }
    #[inline(always)]
    fn min_raw(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.min_raw(a[0], b[0]), self.0.min_raw(a[1], b[1])]
    }
    #[inline(always)]
    fn max_raw(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.max_raw(a[0], b[0]), self.0.max_raw(a[1], b[1])]
    }
    #[inline(always)]
    fn maximum(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.maximum(a[0], b[0]), self.0.maximum(a[1], b[1])]
    }
    #[inline(always)]
    fn minimum(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.minimum(a[0], b[0]), self.0.minimum(a[1], b[1])]
    }
    #[inline(always)]
    fn scale_pow2(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.scale_pow2(a[0], b[0]), self.0.scale_pow2(a[1], b[1])]
    }
    #[inline(always)]
    fn together(self, v: &mut [Self::F]) {
        self.0.together(v.as_flattened_mut());
    }
    #[inline(always)]
    fn add_exponent(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.add_exponent(a[0], b[0]), self.0.add_exponent(a[1], b[1])]
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        [self.0.mul_add(a[0], b[0], c[0]), self.0.mul_add(a[1], b[1], c[1])]
    }
    #[inline(always)]
    fn neg_mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        [self.0.neg_mul_add(a[0], b[0], c[0]), self.0.neg_mul_add(a[1], b[1], c[1])]
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        [self.0.sqrt(a[0]), self.0.sqrt(a[1])]
    }
    #[inline(always)]
    fn round_even(self, a: Self::F) -> Self::F {
        [self.0.round_even(a[0]), self.0.round_even(a[1])]
    }
    #[inline(always)]
    fn floor(self, a: Self::F) -> Self::F {
        [self.0.floor(a[0]), self.0.floor(a[1])]
    }
    #[inline(always)]
    fn ceil(self, a: Self::F) -> Self::F {
        [self.0.ceil(a[0]), self.0.ceil(a[1])]
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        [self.0.abs(a[0]), self.0.abs(a[1])]
    }
    #[inline(always)]
    fn neg(self, a: Self::F) -> Self::F {
        [self.0.neg(a[0]), self.0.neg(a[1])]
    }
    #[inline(always)]
    fn with_sign_of(self, a: Self::F, b: Self::F) -> Self::F {
        [self.0.with_sign_of(a[0], b[0]), self.0.with_sign_of(a[1], b[1])]
    }
    #[inline(always)]
    fn lt(self, a: Self::F, b: Self::F) -> Self::M {
        [self.0.lt(a[0], b[0]), self.0.lt(a[1], b[1])]
    }
    #[inline(always)]
    fn le(self, a: Self::F, b: Self::F) -> Self::M {
        [self.0.le(a[0], b[0]), self.0.le(a[1], b[1])]
    }
    #[inline(always)]
    fn eq(self, a: Self::F, b: Self::F) -> Self::M {
        [self.0.eq(a[0], b[0]), self.0.eq(a[1], b[1])]
    }
    #[inline(always)]
    fn is_nan(self, a: Self::F) -> Self::M {
        [self.0.is_nan(a[0]), self.0.is_nan(a[1])]
    }
    #[inline(always)]
    fn both(self, a: Self::M, b: Self::M) -> Self::M {
        [self.0.both(a[0], b[0]), self.0.both(a[1], b[1])]
    }
    #[inline(always)]
    fn select(self, a: Self::M, b: Self::F, c: Self::F) -> Self::F {
        [self.0.select(a[0], b[0], c[0]), self.0.select(a[1], b[1], c[1])]
    }
    #[inline(always)]
    fn to_bits(self, a: Self::F) -> Self::I {
        [self.0.to_bits(a[0]), self.0.to_bits(a[1])]
    }
    #[inline(always)]
    fn from_bits(self, a: Self::I) -> Self::F {
        [self.0.from_bits(a[0]), self.0.from_bits(a[1])]
    }
    #[inline(always)]
    fn eq_i(self, a: Self::I, b: Self::I) -> Self::M {
        [self.0.eq_i(a[0], b[0]), self.0.eq_i(a[1], b[1])]
    }
    #[inline(always)]
    fn to_i32(self, a: Self::F) -> Self::I {
        [self.0.to_i32(a[0]), self.0.to_i32(a[1])]
    }
    #[inline(always)]
    fn from_i32(self, a: Self::I) -> Self::F {
        [self.0.from_i32(a[0]), self.0.from_i32(a[1])]
    }
    #[inline(always)]
    fn f16_to_f32(self, a: Self::H) -> Self::F {
        [self.0.f16_to_f32(a[0]), self.0.f16_to_f32(a[1])]
    }
    #[inline(always)]
    fn f32_to_f16(self, a: Self::F) -> Self::H {
        [self.0.f32_to_f16(a[0]), self.0.f32_to_f16(a[1])]
    }
    #[inline(always)]
    fn bf16_to_f32(self, a: Self::H) -> Self::F {
        [self.0.bf16_to_f32(a[0]), self.0.bf16_to_f32(a[1])]
    }
    #[inline(always)]
    fn f32_to_bf16(self, a: Self::F) -> Self::H {
        [self.0.f32_to_bf16(a[0]), self.0.f32_to_bf16(a[1])]
    }
    #[inline(always)]
    fn add_f64(self, a: Self::D, b: Self::D) -> Self::D {
        [self.0.add_f64(a[0], b[0]), self.0.add_f64(a[1], b[1])]
    }
    #[inline(always)]
    fn mul_add_f64(self, a: Self::D, b: Self::D, c: Self::D) -> Self::D {
        [self.0.mul_add_f64(a[0], b[0], c[0]), self.0.mul_add_f64(a[1], b[1], c[1])]
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        [self.0.add_i(a[0], b[0]), self.0.add_i(a[1], b[1])]
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        [self.0.sub_i(a[0], b[0]), self.0.sub_i(a[1], b[1])]
    }
    #[inline(always)]
    fn and_i(self, a: Self::I, b: Self::I) -> Self::I {
        [self.0.and_i(a[0], b[0]), self.0.and_i(a[1], b[1])]
    }
    #[inline(always)]
    fn or_i(self, a: Self::I, b: Self::I) -> Self::I {
        [self.0.or_i(a[0], b[0]), self.0.or_i(a[1], b[1])]
    }
    #[inline(always)]
    fn xor_i(self, a: Self::I, b: Self::I) -> Self::I {
        [self.0.xor_i(a[0], b[0]), self.0.xor_i(a[1], b[1])]
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: Self::I) -> Self::I {
        [self.0.shl::<N>(a[0]), self.0.shl::<N>(a[1])]
    }
    #[inline(always)]
    fn shr_arith<const N: u32>(self, a: Self::I) -> Self::I {
        [self.0.shr_arith::<N>(a[0]), self.0.shr_arith::<N>(a[1])]
    }
}
