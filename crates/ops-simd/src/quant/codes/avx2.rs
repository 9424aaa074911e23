//! Unpacking with AVX2.

use core::arch::x86_64::*;

use super::words::{Target, Vector, Words};
use super::{Format, Step, unpack_on};

/// A value proves that the processor has AVX2 and F16C.
#[derive(Clone, Copy)]
struct Avx2 {
    /// See [`Target::groups`].
    groups: bool,
}

/// Sixteen words in two registers.
#[derive(Clone, Copy)]
struct W([__m256i; 2]);

impl Vector for W {
    #[inline(always)]
    fn load(words: Words) -> Self {
        W(vectors(words))
    }
    #[inline(always)]
    fn store(self) -> Words {
        from_vectors(self.0)
    }
    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W([_mm256_set1_epi32(word as i32); 2]) }
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W([_mm256_and_si256(self.0[0], other.0[0]), _mm256_and_si256(self.0[1], other.0[1])]) }
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W([_mm256_or_si256(self.0[0], other.0[0]), _mm256_or_si256(self.0[1], other.0[1])]) }
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W([_mm256_xor_si256(self.0[0], other.0[0]), _mm256_xor_si256(self.0[1], other.0[1])]) }
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W([_mm256_add_epi32(self.0[0], other.0[0]), _mm256_add_epi32(self.0[1], other.0[1])]) }
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W([_mm256_mullo_epi32(self.0[0], other.0[0]), _mm256_mullo_epi32(self.0[1], other.0[1])]) }
    }
    #[inline(always)]
    fn right(self, by: u32) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe {
            W([
                _mm256_srl_epi32(self.0[0], _mm_cvtsi32_si128(by as i32)),
                _mm256_srl_epi32(self.0[1], _mm_cvtsi32_si128(by as i32)),
            ])
        }
    }
    #[inline(always)]
    fn left(self, by: u32) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe {
            W([
                _mm256_sll_epi32(self.0[0], _mm_cvtsi32_si128(by as i32)),
                _mm256_sll_epi32(self.0[1], _mm_cvtsi32_si128(by as i32)),
            ])
        }
    }
    #[inline(always)]
    fn highest(self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe { W([_mm256_srai_epi32::<24>(self.0[0]), _mm256_srai_epi32::<24>(self.0[1])]) }
    }
    #[inline(always)]
    fn to_floats(self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe {
            W([
                _mm256_castps_si256(_mm256_cvtepi32_ps(self.0[0])),
                _mm256_castps_si256(_mm256_cvtepi32_ps(self.0[1])),
            ])
        }
    }
    #[inline(always)]
    fn nearest(self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe {
            W([
                _mm256_cvtps_epi32(_mm256_castsi256_ps(self.0[0])),
                _mm256_cvtps_epi32(_mm256_castsi256_ps(self.0[1])),
            ])
        }
    }
    #[inline(always)]
    fn fmul(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe {
            W([
                _mm256_castps_si256(_mm256_mul_ps(
                    _mm256_castsi256_ps(self.0[0]),
                    _mm256_castsi256_ps(other.0[0]),
                )),
                _mm256_castps_si256(_mm256_mul_ps(
                    _mm256_castsi256_ps(self.0[1]),
                    _mm256_castsi256_ps(other.0[1]),
                )),
            ])
        }
    }
    #[inline(always)]
    fn fdiv(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe {
            W([
                _mm256_castps_si256(_mm256_div_ps(
                    _mm256_castsi256_ps(self.0[0]),
                    _mm256_castsi256_ps(other.0[0]),
                )),
                _mm256_castps_si256(_mm256_div_ps(
                    _mm256_castsi256_ps(self.0[1]),
                    _mm256_castsi256_ps(other.0[1]),
                )),
            ])
        }
    }
    #[inline(always)]
    fn fmax(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions: only targets make registers.
        unsafe {
            W([
                _mm256_castps_si256(_mm256_max_ps(
                    _mm256_castsi256_ps(self.0[0]),
                    _mm256_castsi256_ps(other.0[0]),
                )),
                _mm256_castps_si256(_mm256_max_ps(
                    _mm256_castsi256_ps(self.0[1]),
                    _mm256_castsi256_ps(other.0[1]),
                )),
            ])
        }
    }
}

impl Target for Avx2 {
    type V = W;

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // SAFETY: every processor of this architecture has the instruction, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }

    #[inline(always)]
    fn groups(self) -> bool {
        self.groups
    }

    #[inline(always)]
    fn four(self, blocks: &[u8], stride: usize, at: usize) -> [W; 4] {
        // The last of sixteen rows is within the blocks.
        assert!(blocks.len() >= 15 * stride + at + 16);
        // SAFETY: the processor has the features, and sixteen bytes of each row are within the blocks.
        let (a, b) = unsafe {
            let first = blocks.as_ptr().add(at);
            (transposed(first, stride), transposed(first.add(8 * stride), stride))
        };
        [W([a[0], b[0]]), W([a[1], b[1]]), W([a[2], b[2]]), W([a[3], b[3]])]
    }

    #[inline(always)]
    fn word(self, blocks: &[u8], stride: usize, at: usize) -> W {
        assert!(blocks.len() >= 15 * stride + at + 4);
        let mut out = Words([0; 16]);
        for (r, out) in out.0.iter_mut().enumerate() {
            // SAFETY: four bytes within the blocks, for every row up to the last.
            *out = unsafe { blocks.as_ptr().add(r * stride + at).cast::<u32>().read_unaligned() };
        }
        W::load(out)
    }

    #[inline(always)]
    fn lookup(self, table: &[u8; 16], codes: W) -> W {
        // SAFETY: the processor has AVX2; the table has 16 bytes.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            W([_mm256_shuffle_epi8(table, codes.0[0]), _mm256_shuffle_epi8(table, codes.0[1])])
        }
    }

    #[inline(always)]
    fn halves(self, bits: W) -> W {
        // SAFETY: the processor has AVX2 and F16C.
        unsafe {
            let low = bits.and(W::splat(0xffff));
            // Quarters of the first vector, the second, the first, the second.
            let half = _mm256_packus_epi32(low.0[0], low.0[1]);
            let half = _mm256_permute4x64_epi64::<0xd8>(half);
            let wide = |half: __m128i| _mm256_castps_si256(_mm256_cvtph_ps(half));
            W([wide(_mm256_castsi256_si128(half)), wide(_mm256_extracti128_si256::<1>(half))])
        }
    }
}

#[inline(always)]
fn vectors(words: Words) -> [__m256i; 2] {
    // SAFETY: both have 64 bytes, and any are valid.
    unsafe { core::mem::transmute::<Words, [__m256i; 2]>(words) }
}

#[inline(always)]
fn from_vectors(v: [__m256i; 2]) -> Words {
    // SAFETY: as above.
    unsafe { core::mem::transmute::<[__m256i; 2], Words>(v) }
}

/// Sixteen bytes of each of eight rows, four columns per vector.
///
/// # Safety
/// Sixteen bytes must be readable at `first` and at seven more addresses, `stride` bytes apart.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn transposed(first: *const u8, stride: usize) -> [__m256i; 4] {
    // SAFETY: row r < 8, and the caller guarantees its sixteen bytes.
    let row = |r: usize| unsafe { _mm_loadu_si128(first.add(r * stride).cast()) };
    let both = |r: usize| _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row(r)), row(r + 4));
    let v = [both(0), both(1), both(2), both(3)];
    let (a, b) = (_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
    let (c, d) = (_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
    [
        _mm256_unpacklo_epi64(a, c),
        _mm256_unpackhi_epi64(a, c),
        _mm256_unpacklo_epi64(b, d),
        _mm256_unpackhi_epi64(b, d),
    ]
}

#[target_feature(enable = "avx2,fma,f16c,bmi2")]
pub(super) fn unpack(format: Format, rows: &[u8], at: (usize, usize), steps: &mut [Step], groups: bool) {
    unpack_on(Avx2 { groups }, format, rows, at, steps);
}
