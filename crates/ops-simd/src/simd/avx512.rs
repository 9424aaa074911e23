//! AVX-512 F, BW, DQ and VL, together with the features of AVX2 processors.

use core::arch::x86_64::*;

use super::{Simd, TileKernel, VectorFn};

/// Proof that the processor has AVX-512 (F, BW, DQ, VL), FMA, F16C and BMI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The processor must have avx512f, avx512bw, avx512dq, avx512vl, avx2, fma, f16c, bmi1 and bmi2.
    #[inline(always)]
    pub(crate) unsafe fn new_unchecked() -> Self {
        Self(())
    }

    // One copy instead of one for every caller.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2")]
    fn call<K: VectorFn>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

/// Calls intrinsics that need only the features that the token proves and that access no memory.
macro_rules! pure {
    ($e:expr) => {{
        // SAFETY: `self` proves the features, and these intrinsics access no memory.
        unsafe { $e }
    }};
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    const LANES_F64: usize = 8;
    const FUSED: bool = true;
    const TWO_DEINTERLEAVED: bool = true;

    type F = __m512;
    type I = __m512i;
    type H = __m256i;
    type M = __mmask16;
    type D = __m512d;

    #[inline(always)]
    fn vectorize<K: VectorFn>(self, kernel: K) -> K::Output {
        pure!(self.call(kernel))
    }

    #[inline(always)]
    fn with_tile<K: TileKernel>(self, kernel: K) -> K::Output {
        kernel.run::<Self, 14, 2, 6, 4>(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        pure!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn load(self, src: &[f32]) -> __m512 {
        assert!(src.len() >= 16);
        // SAFETY: 16 f32 are readable, checked above.
        unsafe { self.load_ptr(src.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, dst: &mut [f32], v: __m512) {
        assert!(dst.len() >= 16);
        // SAFETY: 16 f32 are writable, checked above.
        unsafe { self.store_ptr(dst.as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn load_partial(self, src: &[f32], fill: f32) -> __m512 {
        let n = src.len().min(16);
        // SAFETY: the mask has one bit for each of the first `n` f32 of `src`; the others are not accessed.
        unsafe { _mm512_mask_loadu_ps(_mm512_set1_ps(fill), first(n), src.as_ptr()) }
    }
    #[inline(always)]
    fn store_partial(self, dst: &mut [f32], v: __m512) {
        let n = dst.len().min(16);
        // SAFETY: the mask has one bit for each of the first `n` f32 of `dst`; the others are not accessed.
        unsafe { _mm512_mask_storeu_ps(dst.as_mut_ptr(), first(n), v) }
    }
    #[inline(always)]
    unsafe fn load_ptr(self, src: *const f32) -> __m512 {
        // SAFETY: the caller guarantees 16 readable f32; `self` proves the features.
        unsafe { _mm512_loadu_ps(src) }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, dst: *mut f32, v: __m512) {
        // SAFETY: the caller guarantees 16 writable f32; `self` proves the features.
        unsafe { _mm512_storeu_ps(dst, v) }
    }

    #[inline(always)]
    fn load_half(self, src: &[u16]) -> __m256i {
        assert!(src.len() >= 16);
        // SAFETY: 16 u16 are readable, checked above.
        unsafe { self.load_half_ptr(src.as_ptr()) }
    }
    #[inline(always)]
    fn store_half(self, dst: &mut [u16], v: __m256i) {
        assert!(dst.len() >= 16);
        // SAFETY: 16 u16 are writable, checked above; `self` proves the features.
        unsafe { _mm256_storeu_si256(dst.as_mut_ptr().cast(), v) }
    }
    #[inline(always)]
    unsafe fn load_half_ptr(self, src: *const u16) -> __m256i {
        // SAFETY: the caller guarantees 16 readable u16; `self` proves the features.
        unsafe { _mm256_loadu_si256(src.cast()) }
    }
    #[inline(always)]
    fn load_half_partial(self, src: &[u16], fill: u16) -> __m256i {
        let n = src.len().min(16);
        // SAFETY: the mask has one bit for each of the first `n` u16 of `src`; the others are not accessed.
        unsafe { _mm256_mask_loadu_epi16(_mm256_set1_epi16(fill as i16), first(n), src.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store_half_partial(self, dst: &mut [u16], v: __m256i) {
        let n = dst.len().min(16);
        // SAFETY: the mask has one bit for each of the first `n` u16 of `dst`; the others are not accessed.
        unsafe { _mm256_mask_storeu_epi16(dst.as_mut_ptr().cast(), first(n), v) }
    }
    #[inline(always)]
    fn f16_to_f32(self, h: __m256i) -> __m512 {
        pure!(_mm512_cvtph_ps(h))
    }
    #[inline(always)]
    fn f32_to_f16(self, v: __m512) -> __m256i {
        pure!(_mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v))
    }
    #[inline(always)]
    fn bf16_to_f32(self, h: __m256i) -> __m512 {
        pure!(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(h))))
    }
    // Not vcvtneps2bf16: it flushes subnormal inputs to zero. Not vpmovdw: its store form is slow on Zen.
    #[inline(always)]
    fn f32_to_bf16(self, v: __m512) -> __m256i {
        pure!({
            let words = _mm512_loadu_si512(HIGH_WORDS.as_ptr().cast());
            _mm512_castsi512_si256(_mm512_permutexvar_epi16(words, round_to_bf16(v)))
        })
    }

    // Words of even index go to one vector and those of odd index to the other. A shift and a mask widen them; a shift and a
    // blend narrow them.
    #[inline(always)]
    fn load_two_bf16(self, src: &[u16]) -> [__m512; 2] {
        assert!(src.len() >= 32);
        // SAFETY: 32 u16 are readable, checked above; `self` proves the features.
        let words = unsafe { _mm512_loadu_si512(src.as_ptr().cast()) };
        pure!({
            let odd = _mm512_and_si512(words, _mm512_set1_epi32(!0xffff));
            [_mm512_castsi512_ps(_mm512_slli_epi32::<16>(words)), _mm512_castsi512_ps(odd)]
        })
    }
    #[inline(always)]
    fn store_two_bf16(self, dst: &mut [u16], v: [__m512; 2]) {
        store_high_words(dst, [round_to_bf16(v[0]), round_to_bf16(v[1])]);
    }
    #[inline(always)]
    fn store_two_approx_bf16(self, dst: &mut [u16], v: [__m512; 2]) {
        // If the lower half is zero, as in infinity and such a NaN, the addition does not carry.
        store_high_words(dst, [half_up(v[0]), half_up(v[1])]);
    }
    #[inline(always)]
    fn round_approx_bf16(self, v: __m512) -> __m512 {
        pure!(_mm512_castsi512_ps(_mm512_and_si512(half_up(v), _mm512_set1_epi32(!0xffff))))
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        pure!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        pure!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        pure!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        pure!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        pure!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn neg_mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        pure!(_mm512_fnmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn reciprocal_estimate(self, a: __m512) -> __m512 {
        pure!(_mm512_rcp14_ps(a))
    }
    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        pure!(_mm512_sqrt_ps(a))
    }
    #[inline(always)]
    fn min_raw(self, a: __m512, b: __m512) -> __m512 {
        pure!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn max_raw(self, a: __m512, b: __m512) -> __m512 {
        pure!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn round_even(self, a: __m512) -> __m512 {
        pure!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }
    #[inline(always)]
    fn floor(self, a: __m512) -> __m512 {
        pure!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a))
    }
    #[inline(always)]
    fn ceil(self, a: __m512) -> __m512 {
        pure!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(a))
    }
    // The scaling instruction rounds its exponent down and accepts any number.
    #[inline(always)]
    fn split(self, x: __m512) -> (__m512, __m512) {
        pure!((_mm512_reduce_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(x), x))
    }
    #[inline(always)]
    fn scale_pow2(self, x: __m512, n: __m512) -> __m512 {
        pure!(_mm512_scalef_ps(x, n))
    }
    #[inline(always)]
    fn add_exponent(self, x: __m512, n: __m512) -> __m512 {
        self.scale_pow2(x, n)
    }

    #[inline(always)]
    fn lt(self, a: __m512, b: __m512) -> __mmask16 {
        pure!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b))
    }
    #[inline(always)]
    fn le(self, a: __m512, b: __m512) -> __mmask16 {
        pure!(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b))
    }
    #[inline(always)]
    fn eq(self, a: __m512, b: __m512) -> __mmask16 {
        pure!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b))
    }
    #[inline(always)]
    fn is_nan(self, a: __m512) -> __mmask16 {
        pure!(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a))
    }
    #[inline(always)]
    fn both(self, a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }
    #[inline(always)]
    fn all(self, m: __mmask16) -> bool {
        m == u16::MAX
    }
    #[inline(always)]
    fn any(self, m: __mmask16) -> bool {
        m != 0
    }
    #[inline(always)]
    fn select(self, m: __mmask16, yes: __m512, no: __m512) -> __m512 {
        pure!(_mm512_mask_blend_ps(m, no, yes))
    }
    #[inline(always)]
    fn load_mask(self, src: &[u8]) -> __mmask16 {
        assert!(src.len() >= 16);
        // SAFETY: 16 bytes are readable, checked above; `self` proves the features.
        unsafe {
            let bytes = _mm_loadu_si128(src.as_ptr().cast());
            _mm_test_epi8_mask(bytes, bytes)
        }
    }

    #[inline(always)]
    fn to_bits(self, a: __m512) -> __m512i {
        pure!(_mm512_castps_si512(a))
    }
    #[inline(always)]
    fn from_bits(self, a: __m512i) -> __m512 {
        pure!(_mm512_castsi512_ps(a))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> __m512i {
        pure!(_mm512_set1_epi32(x))
    }
    #[inline(always)]
    fn add_i(self, a: __m512i, b: __m512i) -> __m512i {
        pure!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub_i(self, a: __m512i, b: __m512i) -> __m512i {
        pure!(_mm512_sub_epi32(a, b))
    }
    #[inline(always)]
    fn and_i(self, a: __m512i, b: __m512i) -> __m512i {
        pure!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn or_i(self, a: __m512i, b: __m512i) -> __m512i {
        pure!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn xor_i(self, a: __m512i, b: __m512i) -> __m512i {
        pure!(_mm512_xor_si512(a, b))
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: __m512i) -> __m512i {
        pure!(_mm512_slli_epi32::<N>(a))
    }
    #[inline(always)]
    fn shr_arith<const N: u32>(self, a: __m512i) -> __m512i {
        pure!(_mm512_srai_epi32::<N>(a))
    }
    #[inline(always)]
    fn eq_i(self, a: __m512i, b: __m512i) -> __mmask16 {
        pure!(_mm512_cmpeq_epi32_mask(a, b))
    }
    #[inline(always)]
    fn to_i32(self, a: __m512) -> __m512i {
        pure!(_mm512_cvtps_epi32(a))
    }
    #[inline(always)]
    fn from_i32(self, a: __m512i) -> __m512 {
        pure!(_mm512_cvtepi32_ps(a))
    }

    #[inline(always)]
    fn reduce_add(self, a: __m512) -> f32 {
        pure!(_mm512_reduce_add_ps(a))
    }
    #[inline(always)]
    fn reduce_maximum(self, a: __m512) -> f32 {
        if self.any(self.is_nan(a)) { f32::NAN } else { pure!(_mm512_reduce_max_ps(a)) }
    }
    #[inline(always)]
    fn deinterleave(self, a: __m512, b: __m512) -> (__m512, __m512) {
        pure!({
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            (_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b))
        })
    }
    #[inline(always)]
    fn interleave(self, even: __m512, odd: __m512) -> (__m512, __m512) {
        pure!({
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            (_mm512_permutex2var_ps(even, low, odd), _mm512_permutex2var_ps(even, high, odd))
        })
    }

    #[inline(always)]
    unsafe fn stream_copy(self, src: &[u8], dst: &mut [u8]) {
        assert_eq!(src.len(), dst.len());
        let head = dst.as_ptr().align_offset(64).min(dst.len());
        dst[..head].copy_from_slice(&src[..head]);
        let (src, dst) = (&src[head..], &mut dst[head..]);
        let (from, _) = src.as_chunks::<64>();
        let (to, _) = dst.as_chunks_mut::<64>();
        for (from, to) in from.iter().zip(to) {
            // SAFETY: both are 64 bytes, and `to` is 64-byte aligned because `head` was split off. `self` proves the
            // features.
            unsafe { _mm512_stream_si512(to.as_mut_ptr().cast(), _mm512_loadu_si512(from.as_ptr().cast())) }
        }
        let tail = src.len() / 64 * 64;
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
    fn splat_f64(self, x: f64) -> __m512d {
        pure!(_mm512_set1_pd(x))
    }
    #[inline(always)]
    unsafe fn load_f64_ptr(self, src: *const f64) -> __m512d {
        // SAFETY: the caller guarantees 8 readable f64; `self` proves the features.
        unsafe { _mm512_loadu_pd(src) }
    }
    #[inline(always)]
    unsafe fn store_f64_ptr(self, dst: *mut f64, v: __m512d) {
        // SAFETY: the caller guarantees 8 writable f64; `self` proves the features.
        unsafe { _mm512_storeu_pd(dst, v) }
    }
    #[inline(always)]
    fn add_f64(self, a: __m512d, b: __m512d) -> __m512d {
        pure!(_mm512_add_pd(a, b))
    }
    #[inline(always)]
    fn mul_add_f64(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        pure!(_mm512_fmadd_pd(a, b, c))
    }
}

/// Rounds to bf16, to nearest, ties to even, in the upper half of each lane.
#[inline(always)]
fn round_to_bf16(v: __m512) -> __m512i {
    // SAFETY: only inlined in methods of a token that proves the features; no memory is accessed.
    unsafe {
        let bits = _mm512_castps_si512(v);
        let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x1_0000));
        let up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
        let rounded = _mm512_mask_add_epi32(up, odd, up, _mm512_set1_epi32(1));
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
        _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x0040_0000))
    }
}

/// Rounds to bf16, to nearest, ties away from zero, in the upper half of each lane. A NaN must have a zero lower half.
#[inline(always)]
fn half_up(v: __m512) -> __m512i {
    // SAFETY: only inlined in methods of a token that proves the features; no memory is accessed.
    unsafe { _mm512_add_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x8000)) }
}

/// Stores the upper halves of the lanes: those of the first vector at even indices, those of the second at odd ones.
#[inline(always)]
fn store_high_words(dst: &mut [u16], v: [__m512i; 2]) {
    assert!(dst.len() >= 32);
    // SAFETY: 32 u16 are writable, checked above; only inlined in methods of a token that proves the features.
    unsafe {
        let words = _mm512_mask_blend_epi16(0xaaaa_aaaa, _mm512_srli_epi32::<16>(v[0]), v[1]);
        _mm512_storeu_si512(dst.as_mut_ptr().cast(), words);
    }
}

/// Selects the high word of each lane; the rest is arbitrary.
static HIGH_WORDS: [u16; 32] = {
    let mut words = [0; 32];
    let mut i = 0;
    while i < 16 {
        words[i] = 2 * i as u16 + 1;
        i += 1;
    }
    words
};

/// A mask of the first `n` lanes, n ≤ 16.
#[inline(always)]
fn first(n: usize) -> __mmask16 {
    ((1u32 << n) - 1) as __mmask16
}
