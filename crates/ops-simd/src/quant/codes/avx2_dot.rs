//! Products of codes with AVX2, which multiplies bytes in pairs to 16 bits.

use core::arch::x86_64::*;

use super::super::activations::{Block, Panel};
use super::super::panels::{Offsets, WORDS};
use super::words::{Lanes, Words};
use super::{Format, Kind, Step};

/// Adds to `out` Σ over steps of scale · scale · Σ code · quant, less the minima, for sixteen rows of weights and `M` rows of
/// activations.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn dot<const M: usize>(format: Format, steps: &[Step], x: Panel<'_, M>, out: &mut [Lanes; M]) {
    let kind = format.kind(false);
    match format.bits() {
        4 => add_steps::<M, 4, false>(kind, steps, x, out),
        5 => add_steps::<M, 5, false>(kind, steps, x, out),
        6 => add_steps::<M, 6, false>(kind, steps, x, out),
        _ => add_steps::<M, 8, false>(kind, steps, x, out),
    }
}

/// As [`dot`], for groups of codes of `bits` bits.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn dot_groups<const M: usize>(bits: usize, steps: &[Step], x: Panel<'_, M>, out: &mut [Lanes; M]) {
    match bits {
        3 => add_steps::<M, 3, true>(Kind::Offset(0), steps, x, out),
        _ => add_steps::<M, 6, true>(Kind::Offset(0), steps, x, out),
    }
}

/// A vector for each half of sixteen rows.
pub(in crate::quant) type Halves<T> = [T; 2];

/// Rows of activations multiplied by each register of codes while it is loaded.
pub(in super::super) const TOGETHER: usize = 4;

/// The products with codes of `BITS` bits, in groups or not.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_steps<const M: usize, const BITS: usize, const GROUPS: bool>(
    kind: Kind,
    steps: &[Step],
    x: Panel<'_, M>,
    out: &mut [Lanes; M],
) {
    for (step, x) in steps.iter().zip(x.blocks()) {
        let mut from = 0;
        while from + TOGETHER <= M {
            add_rows::<M, TOGETHER, BITS, GROUPS>(kind, step, x, from, out);
            from += TOGETHER;
        }
        if from + 2 <= M {
            add_rows::<M, 2, BITS, GROUPS>(kind, step, x, from, out);
            from += 2;
        }
        if from < M {
            add_rows::<M, 1, BITS, GROUPS>(kind, step, x, from, out);
        }
    }
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
    // `sums` takes 128 off codes of eight bits.
    let taken = if BITS == 8 { 128 } else { 0 };
    let offset = if let Kind::Offset(offset) = kind { i32::from(offset) } else { 0 };
    let mut acc = scaled(sums, offset - taken, lanes(&step.scale), x, from, out);
    let mut take_off = |minima: &Lanes, of_x: fn(&Offsets) -> f32| {
        let minima = lanes(minima);
        for (acc, offsets) in acc.iter_mut().zip(offsets) {
            let of_x = _mm256_set1_ps(of_x(offsets));
            *acc = [_mm256_fmadd_ps(minima[0], of_x, acc[0]), _mm256_fmadd_ps(minima[1], of_x, acc[1])];
        }
    };
    match kind {
        Kind::Offset(_) => {}
        Kind::Minimum => take_off(&step.minima[0], |x| x.minus),
        Kind::TwoMinima => {
            take_off(&step.minima[0], |x| x.halves[0]);
            take_off(&step.minima[1], |x| x.halves[1]);
        }
    }
    store(out, acc);
}

/// Adds to `out` these sums for rows of activations from row `from` on, less the offset, times the scales.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(in super::super) fn scaled<const M: usize, const R: usize>(
    sums: [Halves<__m256i>; R],
    offset: i32,
    scale: Halves<__m256>,
    x: Block<'_, M>,
    from: usize,
    out: &[Lanes; R],
) -> [Halves<__m256>; R] {
    let mut acc = [[_mm256_setzero_ps(); 2]; R];
    for (r, acc) in acc.iter_mut().enumerate() {
        let more = _mm256_set1_epi32(-offset * x.sums[from + r]);
        let (before, of_x) = (lanes(&out[r]), _mm256_set1_ps(x.scales[from + r]));
        for half in 0..2 {
            let sum = if offset == 0 { sums[r][half] } else { _mm256_add_epi32(more, sums[r][half]) };
            acc[half] =
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(scale[half], of_x), before[half]);
        }
    }
    acc
}

/// Both halves of a number for each row.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes(lanes: &Lanes) -> Halves<__m256> {
    // SAFETY: eight of sixteen f32.
    [0, 8].map(|at| unsafe { _mm256_loadu_ps(lanes[at..][..8].as_ptr()) })
}

/// Stores the sums of as many rows of activations as there are.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::quant) fn store<const R: usize>(out: &mut [Lanes], sums: [Halves<__m256>; R]) {
    for (out, sums) in out.iter_mut().zip(sums) {
        for (out, sums) in out.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
            // SAFETY: eight f32.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sums) };
        }
    }
}

/// The sums of a step's products with `R` rows of activations, for the first eight rows of the weight and for
/// the last eight. `codes` loads word `g` of either eight. Codes of eight bits have an offset of 128, which
/// is taken off.
#[inline]
#[target_feature(enable = "avx2")]
pub(in super::super) fn sums<const R: usize, const BITS: usize>(
    codes: impl Fn(usize, usize) -> __m256i,
    quants: &[[i32; WORDS]; R],
) -> [Halves<__m256i>; R] {
    match BITS {
        // This many products of pairs fit 16 bits: each is at most 2 · 127 · 2^BITS.
        4 => sums_of_small::<R>(8, codes, quants),
        5 => sums_of_small::<R>(4, codes, quants),
        6 => sums_of_pairs::<R>(codes, quants),
        _ => sums_of_bytes::<R>(codes, quants),
    }
}

/// For codes of four or five bits: the products of several words are added in 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_of_small<const R: usize>(
    together: usize,
    codes: impl Fn(usize, usize) -> __m256i,
    quants: &[[i32; WORDS]; R],
) -> [Halves<__m256i>; R] {
    let product = |g: usize, half: usize, r: usize| {
        _mm256_maddubs_epi16(codes(g, half), _mm256_set1_epi32(quants[r][g]))
    };
    let mut sum = [[_mm256_setzero_si256(); 2]; R];
    for first in (0..WORDS).step_by(together) {
        let mut pairs = [[_mm256_setzero_si256(); 2]; R];
        for (r, pairs) in pairs.iter_mut().enumerate() {
            *pairs = [product(first, 0, r), product(first, 1, r)];
        }
        for g in first + 1..first + together {
            for (r, pairs) in pairs.iter_mut().enumerate() {
                for (half, pairs) in pairs.iter_mut().enumerate() {
                    *pairs = in_order(_mm256_add_epi16(*pairs, product(g, half, r)));
                }
            }
        }
        for (sum, pairs) in sum.iter_mut().zip(pairs) {
            *sum = [0, 1].map(|half| add_pairs(sum[half], pairs[half]));
        }
    }
    sum
}

/// For codes of six bits: the products of two words are added in 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_of_pairs<const R: usize>(
    codes: impl Fn(usize, usize) -> __m256i,
    quants: &[[i32; WORDS]; R],
) -> [Halves<__m256i>; R] {
    let mut sum = [[_mm256_setzero_si256(); 2]; R];
    for half in 0..2 {
        for first in (0..WORDS).step_by(2) {
            for (sum, quants) in sum.iter_mut().zip(quants) {
                let product = |g| _mm256_maddubs_epi16(codes(g, half), _mm256_set1_epi32(quants[g]));
                let pairs = _mm256_add_epi16(product(first), product(first + 1));
                sum[half] = in_order(add_pairs(sum[half], pairs));
            }
        }
    }
    sum
}

/// For codes of eight bits. Unsigned times signed would exceed 16 bits, so the offset is removed and the
/// signs are moved.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_of_bytes<const R: usize>(
    codes: impl Fn(usize, usize) -> __m256i,
    quants: &[[i32; WORDS]; R],
) -> [Halves<__m256i>; R] {
    let mut sum = [[_mm256_setzero_si256(); 2]; R];
    for g in 0..WORDS {
        let signed = [0, 1].map(|half| _mm256_xor_si256(codes(g, half), _mm256_set1_epi8(i8::MIN)));
        let size = signed.map(|signed| _mm256_abs_epi8(signed));
        for (sum, quants) in sum.iter_mut().zip(quants) {
            let quants = _mm256_set1_epi32(quants[g]);
            for half in 0..2 {
                let pairs = _mm256_maddubs_epi16(size[half], _mm256_sign_epi8(quants, signed[half]));
                sum[half] = in_order(add_pairs(sum[half], pairs));
            }
        }
    }
    sum
}

/// Adds both halves of each word.
#[inline]
#[target_feature(enable = "avx2")]
fn add_pairs(sum: __m256i, pairs: __m256i) -> __m256i {
    _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}

/// Returns the vector as it is. The compiler computes vectors in the order in which they are passed to this
/// function. Otherwise it would interleave the products of several words and, short of registers, keep sums
/// in memory.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(mut vector: __m256i) -> __m256i {
    // SAFETY: there is no instruction.
    unsafe {
        core::arch::asm!("/* {} */", inout(ymm_reg) vector, options(nomem, nostack, preserves_flags));
    }
    vector
}

/// The sums for the groups of a step, with the scale of each. Their offset is half the range of codes of `BITS` bits.
#[inline]
#[target_feature(enable = "avx2")]
fn group_sums<const R: usize, const BITS: usize>(
    codes: impl Fn(usize, usize) -> __m256i,
    scales: &[Lanes; 2],
    quants: &[[i32; WORDS]; R],
    offsets: &[Offsets; R],
) -> [Halves<__m256i>; R] {
    // This many words of a group have products that fit 16 bits together: each is at most 2 · 127 · 2^BITS.
    let together = if BITS == 3 { 4 } else { 2 };
    let mut sum = [[_mm256_setzero_si256(); 2]; R];
    for (group, scales) in scales.iter().enumerate() {
        let scales = [0, 1].map(|half| words_of(bytemuck::cast_ref::<Lanes, Words>(scales), half));
        for r in 0..R {
            let pairs = _mm256_set1_epi16(offsets[r].minus_sums[group]);
            // Half of the offset, because pairs are added. The magnitude is at most 2⁴ · 16 · 127.
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
                    let total = _mm256_add_epi32(sum[r][half], _mm256_madd_epi16(pairs, scales[half]));
                    sum[r][half] = in_order(total);
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
