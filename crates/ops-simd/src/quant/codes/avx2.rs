//! AVX2, which multiplies bytes in pairs to 16 bits.

use core::arch::x86_64::*;

use super::super::activations::{Block, Offsets, Panel, WORDS};
use super::words::{Lanes, Target, Vector, Words};
use super::{CodeFormat, Kind, Step, unpack_on};

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
pub(super) fn unpack(format: CodeFormat, rows: &[u8], at: (usize, usize), steps: &mut [Step], groups: bool) {
    unpack_on(Avx2 { groups }, format, rows, at, steps);
}

/// Σ over steps of scale · scale · Σ code · quant, less the minima, for sixteen rows of weights and `M` rows of activations.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn dot<const M: usize>(format: CodeFormat, steps: &[Step], x: Panel<'_, M>) -> [Lanes; M] {
    let kind = format.kind(false);
    match format.bits() {
        4 => add_steps::<M, 4, false>(kind, steps, x),
        5 => add_steps::<M, 5, false>(kind, steps, x),
        6 => add_steps::<M, 6, false>(kind, steps, x),
        _ => add_steps::<M, 8, false>(kind, steps, x),
    }
}

/// The same for groups of codes of `bits` bits.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn dot_groups<const M: usize>(bits: usize, steps: &[Step], x: Panel<'_, M>) -> [Lanes; M] {
    match bits {
        3 => add_steps::<M, 3, true>(Kind::Signed, steps, x),
        _ => add_steps::<M, 6, true>(Kind::Signed, steps, x),
    }
}

/// Rows of activations that meet each register of codes while it is loaded.
pub(in super::super) const TOGETHER: usize = 4;

/// The products with codes of `BITS` bits, in groups or not.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_steps<const M: usize, const BITS: usize, const GROUPS: bool>(
    kind: Kind,
    steps: &[Step],
    x: Panel<'_, M>,
) -> [Lanes; M] {
    let mut out = [[0.0; 16]; M];
    for (step, x) in steps.iter().zip(x.blocks()) {
        let mut from = 0;
        while from + TOGETHER <= M {
            add_rows::<M, TOGETHER, BITS, GROUPS>(kind, step, x, from, &mut out);
            from += TOGETHER;
        }
        if from + 2 <= M {
            add_rows::<M, 2, BITS, GROUPS>(kind, step, x, from, &mut out);
            from += 2;
        }
        if from < M {
            add_rows::<M, 1, BITS, GROUPS>(kind, step, x, from, &mut out);
        }
    }
    out
}

/// Adds the products of a step with `R` rows of activations, from row `from` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_rows<const M: usize, const R: usize, const BITS: usize, const GROUPS: bool>(
    kind: Kind,
    step: &Step,
    x: Block<'_, M>,
    from: usize,
    out: &mut [Lanes; M],
) {
    let (quants, offsets) = (x.quants[from..].first_chunk::<R>(), x.offsets[from..].first_chunk::<R>());
    let (Some(quants), Some(offsets), Some(out)) = (quants, offsets, out[from..].first_chunk_mut::<R>())
    else {
        return;
    };
    let codes = |g: usize, half: usize| words_of(&step.codes[g], half);
    let sums = if GROUPS {
        group_sums::<R, BITS>(codes, &step.minima, quants, offsets)
    } else {
        sums::<R, BITS>(codes, quants)
    };
    for half in [0, 1] {
        // SAFETY: eight of sixteen f32; `half` is 0 or 1.
        let load = |lanes: &Lanes| unsafe { _mm256_loadu_ps(lanes.as_ptr().add(8 * half)) };
        let (scale, minima) = (load(&step.scale), [load(&step.minima[0]), load(&step.minima[1])]);
        for (r, out) in out.iter_mut().enumerate() {
            let (mut acc, row) = (load(out), from + r);
            // Without the offset, bytes of eight bits are 128 · Σ quants too small.
            let short = if BITS == 8 && kind != Kind::Signed { 128 * x.sums[row] } else { 0 };
            let sum = _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_set1_epi32(short), sums[r][half]));
            acc = _mm256_fmadd_ps(sum, _mm256_mul_ps(scale, _mm256_set1_ps(x.scales[row])), acc);
            match kind {
                Kind::Signed => {}
                Kind::Minimum => acc = _mm256_fmadd_ps(minima[0], _mm256_set1_ps(offsets[r].minus), acc),
                Kind::TwoMinima => {
                    for (min, x) in minima.into_iter().zip(offsets[r].halves) {
                        acc = _mm256_fmadd_ps(min, _mm256_set1_ps(x), acc);
                    }
                }
            }
            // SAFETY: as for `load`.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr().add(8 * half), acc) };
        }
    }
}

/// The sums of a step's products with `R` rows of activations, for the first eight rows of the weight and the last. `codes` loads word
/// `g` of either eight.
#[inline]
#[target_feature(enable = "avx2")]
pub(in super::super) fn sums<const R: usize, const BITS: usize>(
    codes: impl Fn(usize, usize) -> __m256i,
    quants: &[[i32; WORDS]; R],
) -> [[__m256i; 2]; R] {
    // So many products of pairs fit 16 bits: 2 · 127 · 2^BITS each.
    let together = match BITS {
        4 => 8,
        5 => 4,
        6 => 2,
        _ => 1,
    };
    let (mut sum, mut pairs) = ([[_mm256_setzero_si256(); 2]; R], [[_mm256_setzero_si256(); 2]; R]);
    for g in 0..WORDS {
        for half in [0, 1] {
            let codes = codes(g, half);
            // Unsigned times signed would exceed 16 bits, so the offset is removed and the signs are moved.
            let signed = _mm256_xor_si256(codes, _mm256_set1_epi8(i8::MIN));
            let size = _mm256_abs_epi8(signed);
            for r in 0..R {
                let quants = _mm256_set1_epi32(quants[r][g]);
                let product = if BITS == 8 {
                    _mm256_maddubs_epi16(size, _mm256_sign_epi8(quants, signed))
                } else {
                    _mm256_maddubs_epi16(codes, quants)
                };
                let to = &mut pairs[r][half];
                *to = if g % together == 0 { product } else { _mm256_add_epi16(*to, product) };
                if g % together == together - 1 {
                    sum[r][half] =
                        _mm256_add_epi32(sum[r][half], _mm256_madd_epi16(*to, _mm256_set1_epi16(1)));
                }
            }
        }
    }
    sum
}

/// The same for the groups of a step, with the scale of each. Their offset is half the range of codes of `BITS` bits.
#[inline]
#[target_feature(enable = "avx2")]
fn group_sums<const R: usize, const BITS: usize>(
    codes: impl Fn(usize, usize) -> __m256i,
    scales: &[Lanes; 2],
    quants: &[[i32; WORDS]; R],
    offsets: &[Offsets; R],
) -> [[__m256i; 2]; R] {
    // So many words of a group, whose products fit 16 bits together: 2 · 127 · 2^BITS each.
    let together = if BITS == 3 { 4 } else { 2 };
    let mut sum = [[_mm256_setzero_si256(); 2]; R];
    for (group, scales) in scales.iter().enumerate() {
        let scales = [0, 1].map(|half| words_of(bytemuck::cast_ref::<Lanes, Words>(scales), half));
        for r in 0..R {
            let pairs = _mm256_set1_epi16(offsets[r].minus_sums[group]);
            // By half of the offset, because pairs are added. The size is at most 2⁴ · 16 · 127.
            let pairs = if BITS == 3 { _mm256_slli_epi16::<1>(pairs) } else { _mm256_slli_epi16::<4>(pairs) };
            for half in [0, 1] {
                sum[r][half] = _mm256_add_epi32(sum[r][half], _mm256_madd_epi16(pairs, scales[half]));
            }
        }
        for first in (group * WORDS / 2..(group + 1) * WORDS / 2).step_by(together) {
            for half in [0, 1] {
                for r in 0..R {
                    let product = |g| _mm256_maddubs_epi16(codes(g, half), _mm256_set1_epi32(quants[r][g]));
                    let mut pairs = product(first);
                    for g in first + 1..first + together {
                        pairs = _mm256_add_epi16(pairs, product(g));
                    }
                    sum[r][half] = _mm256_add_epi32(sum[r][half], _mm256_madd_epi16(pairs, scales[half]));
                }
            }
        }
    }
    sum
}

/// Eight of sixteen words.
#[inline]
#[target_feature(enable = "avx2")]
fn words_of(words: &Words, half: usize) -> __m256i {
    let eight = &words.0[8 * half..][..8];
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) }
}
