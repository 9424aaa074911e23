//! AVX2, FMA and F16C.

use core::arch::x86_64::*;

use super::{Simd, TileKernel, VectorFn};

/// Proof that the processor has AVX2, FMA, F16C and BMI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The processor must have avx2, fma, f16c, bmi1 and bmi2.
    #[inline(always)]
    pub(crate) unsafe fn new_unchecked() -> Self {
        Self(())
    }

    // One copy instead of one for every caller.
    #[inline(never)]
    #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
    fn call<K: VectorFn>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

/// Returns its operands. To the compiler, each result depends on all of them.
#[inline]
#[target_feature(enable = "avx")]
fn in_step([mut a, mut b, mut c, mut d]: [__m256; 4]) -> [__m256; 4] {
    // SAFETY: there is no instruction.
    unsafe {
        core::arch::asm!("/* {} {} {} {} */", inout(ymm_reg) a, inout(ymm_reg) b, inout(ymm_reg) c, inout(ymm_reg) d,
            options(nomem, nostack, preserves_flags));
    }
    [a, b, c, d]
}

/// Calls intrinsics that need only the features that the token proves and that access no memory.
macro_rules! pure {
    ($e:expr) => {{
        // SAFETY: `self` proves the features, and these intrinsics access no memory.
        unsafe { $e }
    }};
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    const LANES_F64: usize = 4;
    const FUSED: bool = true;

    type F = __m256;
    type I = __m256i;
    type H = __m128i;
    type M = __m256;
    type D = __m256d;

    #[inline(always)]
    fn vectorize<K: VectorFn>(self, kernel: K) -> K::Output {
        pure!(self.call(kernel))
    }

    #[inline(always)]
    fn with_tile<K: TileKernel>(self, kernel: K) -> K::Output {
        kernel.run::<Self, 6, 2, 6, 2>(self)
    }

    #[inline(always)]
    fn together(self, v: &mut [__m256]) {
        v.as_chunks_mut::<4>().0.iter_mut().for_each(|v| *v = pure!(in_step(*v)));
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        pure!(_mm256_set1_ps(x))
    }
    #[inline(always)]
    fn load(self, src: &[f32]) -> __m256 {
        assert!(src.len() >= 8);
        // SAFETY: 8 f32 are readable, checked above.
        unsafe { self.load_ptr(src.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, dst: &mut [f32], v: __m256) {
        assert!(dst.len() >= 8);
        // SAFETY: 8 f32 are writable, checked above.
        unsafe { self.store_ptr(dst.as_mut_ptr(), v) }
    }
    #[inline(always)]
    unsafe fn load_ptr(self, src: *const f32) -> __m256 {
        // SAFETY: the caller guarantees 8 readable f32; `self` proves the features.
        unsafe { _mm256_loadu_ps(src) }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, dst: *mut f32, v: __m256) {
        // SAFETY: the caller guarantees 8 writable f32; `self` proves the features.
        unsafe { _mm256_storeu_ps(dst, v) }
    }

    #[inline(always)]
    fn load_half(self, src: &[u16]) -> __m128i {
        assert!(src.len() >= 8);
        // SAFETY: 8 u16 are readable, checked above.
        unsafe { self.load_half_ptr(src.as_ptr()) }
    }
    #[inline(always)]
    fn store_half(self, dst: &mut [u16], v: __m128i) {
        assert!(dst.len() >= 8);
        // SAFETY: 8 u16 are writable, checked above; `self` proves the features.
        unsafe { _mm_storeu_si128(dst.as_mut_ptr().cast(), v) }
    }
    #[inline(always)]
    unsafe fn load_half_ptr(self, src: *const u16) -> __m128i {
        // SAFETY: the caller guarantees 8 readable u16; `self` proves the features.
        unsafe { _mm_loadu_si128(src.cast()) }
    }
    #[inline(always)]
    fn f16_to_f32(self, h: __m128i) -> __m256 {
        pure!(_mm256_cvtph_ps(h))
    }
    #[inline(always)]
    fn f32_to_f16(self, v: __m256) -> __m128i {
        pure!(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v))
    }
    #[inline(always)]
    fn bf16_to_f32(self, h: __m128i) -> __m256 {
        pure!(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(h))))
    }
    #[inline(always)]
    fn f32_to_bf16(self, v: __m256) -> __m128i {
        pure!({
            let bits = _mm256_castps_si256(v);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
            let out = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, nan));
            _mm_packus_epi32(_mm256_castsi256_si128(out), _mm256_extracti128_si256::<1>(out))
        })
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        pure!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        pure!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        pure!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        pure!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        pure!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn neg_mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        pure!(_mm256_fnmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn sqrt(self, a: __m256) -> __m256 {
        pure!(_mm256_sqrt_ps(a))
    }
    #[inline(always)]
    fn min_raw(self, a: __m256, b: __m256) -> __m256 {
        pure!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn max_raw(self, a: __m256, b: __m256) -> __m256 {
        pure!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn round_even(self, a: __m256) -> __m256 {
        pure!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }
    #[inline(always)]
    fn floor(self, a: __m256) -> __m256 {
        pure!(_mm256_round_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a))
    }
    #[inline(always)]
    fn ceil(self, a: __m256) -> __m256 {
        pure!(_mm256_round_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(a))
    }

    #[inline(always)]
    fn lt(self, a: __m256, b: __m256) -> __m256 {
        pure!(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b))
    }
    #[inline(always)]
    fn le(self, a: __m256, b: __m256) -> __m256 {
        pure!(_mm256_cmp_ps::<_CMP_LE_OQ>(a, b))
    }
    #[inline(always)]
    fn eq(self, a: __m256, b: __m256) -> __m256 {
        pure!(_mm256_cmp_ps::<_CMP_EQ_OQ>(a, b))
    }
    #[inline(always)]
    fn is_nan(self, a: __m256) -> __m256 {
        pure!(_mm256_cmp_ps::<_CMP_UNORD_Q>(a, a))
    }
    #[inline(always)]
    fn both(self, a: __m256, b: __m256) -> __m256 {
        pure!(_mm256_and_ps(a, b))
    }
    #[inline(always)]
    fn all(self, m: __m256) -> bool {
        pure!(_mm256_movemask_ps(m) == 0xff)
    }
    #[inline(always)]
    fn any(self, m: __m256) -> bool {
        pure!(_mm256_movemask_ps(m) != 0)
    }
    #[inline(always)]
    fn select(self, m: __m256, yes: __m256, no: __m256) -> __m256 {
        pure!(_mm256_blendv_ps(no, yes, m))
    }
    #[inline(always)]
    fn load_mask(self, src: &[u8]) -> __m256 {
        assert!(src.len() >= 8);
        // SAFETY: 8 bytes are readable, checked above; `self` proves the features.
        unsafe {
            let lanes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(src.as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_cmpgt_epi32(lanes, _mm256_setzero_si256()))
        }
    }

    #[inline(always)]
    fn to_bits(self, a: __m256) -> __m256i {
        pure!(_mm256_castps_si256(a))
    }
    #[inline(always)]
    fn from_bits(self, a: __m256i) -> __m256 {
        pure!(_mm256_castsi256_ps(a))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> __m256i {
        pure!(_mm256_set1_epi32(x))
    }
    #[inline(always)]
    fn add_i(self, a: __m256i, b: __m256i) -> __m256i {
        pure!(_mm256_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub_i(self, a: __m256i, b: __m256i) -> __m256i {
        pure!(_mm256_sub_epi32(a, b))
    }
    #[inline(always)]
    fn and_i(self, a: __m256i, b: __m256i) -> __m256i {
        pure!(_mm256_and_si256(a, b))
    }
    #[inline(always)]
    fn or_i(self, a: __m256i, b: __m256i) -> __m256i {
        pure!(_mm256_or_si256(a, b))
    }
    #[inline(always)]
    fn xor_i(self, a: __m256i, b: __m256i) -> __m256i {
        pure!(_mm256_xor_si256(a, b))
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: __m256i) -> __m256i {
        pure!(_mm256_sll_epi32(a, _mm_cvtsi32_si128(N as i32)))
    }
    #[inline(always)]
    fn shr_arith<const N: u32>(self, a: __m256i) -> __m256i {
        pure!(_mm256_sra_epi32(a, _mm_cvtsi32_si128(N as i32)))
    }
    #[inline(always)]
    fn eq_i(self, a: __m256i, b: __m256i) -> __m256 {
        pure!(_mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)))
    }
    #[inline(always)]
    fn to_i32(self, a: __m256) -> __m256i {
        pure!(_mm256_cvtps_epi32(a))
    }
    #[inline(always)]
    fn from_i32(self, a: __m256i) -> __m256 {
        pure!(_mm256_cvtepi32_ps(a))
    }

    #[inline(always)]
    fn reduce_add(self, a: __m256) -> f32 {
        pure!({
            let half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
        })
    }
    #[inline(always)]
    fn deinterleave(self, a: __m256, b: __m256) -> (__m256, __m256) {
        pure!({
            let low = _mm256_permute2f128_ps::<0x20>(a, b);
            let high = _mm256_permute2f128_ps::<0x31>(a, b);
            (_mm256_shuffle_ps::<0b10_00_10_00>(low, high), _mm256_shuffle_ps::<0b11_01_11_01>(low, high))
        })
    }
    #[inline(always)]
    fn interleave(self, even: __m256, odd: __m256) -> (__m256, __m256) {
        pure!({
            let low = _mm256_unpacklo_ps(even, odd);
            let high = _mm256_unpackhi_ps(even, odd);
            (_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high))
        })
    }

    #[inline(always)]
    unsafe fn stream_copy(self, src: &[u8], dst: &mut [u8]) {
        assert_eq!(src.len(), dst.len());
        let head = dst.as_ptr().align_offset(32).min(dst.len());
        dst[..head].copy_from_slice(&src[..head]);
        let (src, dst) = (&src[head..], &mut dst[head..]);
        let (from, _) = src.as_chunks::<32>();
        let (to, _) = dst.as_chunks_mut::<32>();
        for (from, to) in from.iter().zip(to) {
            // SAFETY: both are 32 bytes, and `to` is 32-byte aligned because `head` was split off. `self` proves the
            // features.
            unsafe { _mm256_stream_si256(to.as_mut_ptr().cast(), _mm256_loadu_si256(from.as_ptr().cast())) }
        }
        let tail = src.len() / 32 * 32;
        dst[tail..].copy_from_slice(&src[tail..]);
    }
    #[inline(always)]
    fn prefetch<T>(self, address: *const T) {
        pure!(_mm_prefetch::<_MM_HINT_T0>(address.cast()))
    }
    #[inline(always)]
    fn prefetch_far<T>(self, address: *const T) {
        pure!(_mm_prefetch::<_MM_HINT_T1>(address.cast()))
    }
    #[inline(always)]
    fn fence(self) {
        pure!(_mm_sfence())
    }

    #[inline(always)]
    fn splat_f64(self, x: f64) -> __m256d {
        pure!(_mm256_set1_pd(x))
    }
    #[inline(always)]
    unsafe fn load_f64_ptr(self, src: *const f64) -> __m256d {
        // SAFETY: the caller guarantees 4 readable f64; `self` proves the features.
        unsafe { _mm256_loadu_pd(src) }
    }
    #[inline(always)]
    unsafe fn store_f64_ptr(self, dst: *mut f64, v: __m256d) {
        // SAFETY: the caller guarantees 4 writable f64; `self` proves the features.
        unsafe { _mm256_storeu_pd(dst, v) }
    }
    #[inline(always)]
    fn add_f64(self, a: __m256d, b: __m256d) -> __m256d {
        pure!(_mm256_add_pd(a, b))
    }
    #[inline(always)]
    fn mul_add_f64(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        pure!(_mm256_fmadd_pd(a, b, c))
    }
}
