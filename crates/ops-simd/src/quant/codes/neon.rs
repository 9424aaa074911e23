//! Products of codes with NEON. Codes are signed bytes, multiplied by the best instructions of the processor.

use core::arch::aarch64::*;

use super::super::activations::{Block, Panel};
use super::super::blocks::TILE_ROWS;
use super::super::neon::{Dot, Dots, Matrices, halves};
use super::super::panels::WORDS;
use super::words::{Lanes, Words};
use super::{Format, Kind, Step};
use crate::gemm::MatMut;
use crate::isa::Level;

/// Sixteen numbers of a row of activations, one for each row of weights. See [`matrices`] for their places.
type Row<V> = [V; 4];

/// Instructions that multiply the codes of a step.
trait Products: Copy {
    /// Whether they multiply two rows of activations at a time, and codes are in pairs of lines ([`super::neon_unpack::pair`]).
    const MATRICES: bool = false;

    /// The sums of products of `N` rows of activations.
    fn sums<const N: usize>(self, codes: &[Words; 8], x: &[[i32; WORDS]; N]) -> [Row<int32x4_t>; N];
}

/// Products in 16 bits. The sums of this many lines of codes fit them.
#[derive(Clone, Copy)]
struct Narrow<const LINES: usize>;

impl<const LINES: usize> Products for Narrow<LINES> {
    #[inline(always)]
    fn sums<const N: usize>(self, codes: &[Words; 8], x: &[[i32; WORDS]; N]) -> [Row<int32x4_t>; N] {
        x.map(|x| {
            // SAFETY: NEON.
            unsafe {
                let mut wide = [vdupq_n_s32(0); 8];
                for (codes, x) in codes.as_chunks::<LINES>().0.iter().zip(x.as_chunks::<LINES>().0) {
                    let mut narrow = [vdupq_n_s16(0); 8];
                    for (line, x) in codes.iter().zip(x) {
                        let x = vreinterpret_s8_s32(vdup_n_s32(*x));
                        for (narrow, codes) in narrow.iter_mut().zip(line.0.as_chunks::<2>().0) {
                            // Eight bytes.
                            *narrow = vmlal_s8(*narrow, vld1_s8(codes.as_ptr().cast()), x);
                        }
                    }
                    for (wide, narrow) in wide.iter_mut().zip(narrow) {
                        *wide = vpadalq_s16(*wide, narrow);
                    }
                }
                core::array::from_fn(|q| vpaddq_s32(wide[2 * q], wide[2 * q + 1]))
            }
        })
    }
}

impl Products for Dots {
    #[inline(always)]
    fn sums<const N: usize>(self, codes: &[Words; 8], x: &[[i32; WORDS]; N]) -> [Row<int32x4_t>; N] {
        // SAFETY: NEON.
        let mut sums = [[unsafe { vdupq_n_s32(0) }; 4]; N];
        for half in 0..2 {
            let x = x.each_ref().map(|x| quants(x, half));
            let [a, b, c, d] = [0, 1, 2, 3].map(|g| &codes[4 * half + g]);
            add_line::<0, N>(self, &mut sums, a, &x);
            add_line::<1, N>(self, &mut sums, b, &x);
            add_line::<2, N>(self, &mut sums, c, &x);
            add_line::<3, N>(self, &mut sums, d, &x);
        }
        sums
    }
}

/// Adds the products of a line of codes with a word of each row of activations.
#[inline(always)]
fn add_line<const WORD: usize, const N: usize>(
    dots: Dots,
    sums: &mut [Row<int32x4_t>; N],
    line: &Words,
    x: &[int8x16_t; N],
) {
    for q in 0..4 {
        let codes = vector(line, q);
        for (sums, x) in sums.iter_mut().zip(x) {
            sums[q] = dots.dot_word::<WORD>(sums[q], codes, *x);
        }
    }
}

impl Products for Matrices {
    const MATRICES: bool = true;

    #[inline(always)]
    fn sums<const N: usize>(self, codes: &[Words; 8], x: &[[i32; WORDS]; N]) -> [Row<int32x4_t>; N] {
        // SAFETY: NEON.
        let mut sums = [[unsafe { vdupq_n_s32(0) }; 4]; N];
        let (pairs, one) = x.as_chunks::<2>();
        for half in 0..2 {
            // One pair or two. If there is one, the last is also the first.
            let of = |pair: Option<&[[i32; WORDS]; 2]>| pair.map(|pair| eights(pair.each_ref(), half));
            if let (Some(a), Some(b)) = (of(pairs.first()), of(pairs.last())) {
                add_eights(self, &mut sums, codes, 2 * half, [a[0], b[0]]);
                add_eights(self, &mut sums, codes, 2 * half + 1, [a[1], b[1]]);
            }
        }
        if let [x] = one {
            sums[0] = sums_of_one(self.dots(), codes, x);
        }
        sums
    }
}

/// Adds the products of the `g`-th pair of lines with eight columns of each pair of rows of activations.
#[inline(always)]
fn add_eights<const N: usize>(
    matrices: Matrices,
    sums: &mut [Row<int32x4_t>; N],
    codes: &[Words; 8],
    g: usize,
    x: [int8x16_t; 2],
) {
    for q in 0..4 {
        let (first, second) = (eight_codes(codes, g, 2 * q), eight_codes(codes, g, 2 * q + 1));
        for ([a, b], x) in sums.as_chunks_mut::<2>().0.iter_mut().zip(x) {
            a[q] = matrices.multiply(a[q], x, first);
            b[q] = matrices.multiply(b[q], x, second);
        }
    }
}

/// The sums of a row of activations with codes in pairs of lines.
#[inline(always)]
fn sums_of_one(dots: Dots, codes: &[Words; 8], x: &[i32; WORDS]) -> Row<int32x4_t> {
    // SAFETY: NEON.
    let mut sums = [unsafe { vdupq_n_s32(0) }; 8];
    for half in 0..2 {
        for (g, x) in eights([x, x], half).into_iter().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = dots.dot(*sum, eight_codes(codes, 2 * half + g, v), x);
            }
        }
    }
    // SAFETY: NEON.
    core::array::from_fn(|q| unsafe { vpaddq_s32(sums[2 * q], sums[2 * q + 1]) })
}

/// Eight codes of rows 2 v and 2 v + 1, of the `g`-th pair of lines.
#[inline(always)]
fn eight_codes(codes: &[Words; 8], g: usize, v: usize) -> int8x16_t {
    vector(&codes[2 * g + v / 4], v % 4)
}

/// Of half of a step's quants of two rows, the first eight of both and the others.
#[inline(always)]
fn eights(x: [&[i32; WORDS]; 2], half: usize) -> [int8x16_t; 2] {
    // SAFETY: NEON.
    unsafe {
        let rows = x.map(|x| vreinterpretq_s64_s8(quants(x, half)));
        halves(rows).map(|eights| vreinterpretq_s8_s64(eights))
    }
}

/// The codes of four rows, or eight codes of two.
#[inline(always)]
fn vector(line: &Words, q: usize) -> int8x16_t {
    let words: &[u32] = &line.0[4 * q..][..4];
    // SAFETY: 16 bytes.
    unsafe { vld1q_s8(words.as_ptr().cast()) }
}

/// Half of a step's quants.
#[inline(always)]
fn quants(x: &[i32; WORDS], half: usize) -> int8x16_t {
    let words: &[i32] = &x[4 * half..][..4];
    // SAFETY: 16 bytes.
    unsafe { vld1q_s8(words.as_ptr().cast()) }
}

/// Whether the numbers of two rows of activations are in the places where products of matrices have them: of rows r and r + 1,
/// vector q of the first has those for the rows 4 q and 4 q + 1 of the weights, and vector q of the second those for the next two.
const fn matrices<P: Products, const N: usize>() -> bool {
    P::MATRICES && N > 1
}

/// What the numbers in vector `q` of row `r` of activations are multiplied by, given that of each row of the weights.
#[inline(always)]
fn of_weights<P: Products, const N: usize>(lanes: &Lanes, r: usize, q: usize) -> float32x4_t {
    let four: &[f32] = &lanes[4 * q..][..4];
    // SAFETY: four f32, of which two are read as one number: the lanes of a step are aligned to a line.
    unsafe {
        if matrices::<P, N>() {
            vreinterpretq_f32_s64(vld1q_dup_s64(four[2 * (r % 2)..][..2].as_ptr().cast()))
        } else {
            vld1q_f32(four.as_ptr())
        }
    }
}

/// The same, given that of each row of activations.
#[inline(always)]
fn of_x<P: Products, const N: usize>(values: [f32; N], r: usize) -> float32x4_t {
    // SAFETY: NEON.
    unsafe {
        if matrices::<P, N>() {
            vcombine_f32(vdup_n_f32(values[r & !1]), vdup_n_f32(values[r | 1]))
        } else {
            vdupq_n_f32(values[r])
        }
    }
}

/// Adds the products of a step to the totals of `N` rows of activations.
#[inline(always)]
fn add_step<P: Products, const N: usize>(
    p: P,
    kind: Kind,
    step: &Step,
    x: Block<'_, N>,
    totals: &mut [Row<float32x4_t>; N],
) {
    let sums = p.sums(&step.codes, x.quants);
    for (r, (totals, sums)) in totals.iter_mut().zip(sums).enumerate() {
        let of_x = of_x::<P, N>(*x.scales, r);
        for (q, (total, sum)) in totals.iter_mut().zip(sums).enumerate() {
            // SAFETY: NEON.
            unsafe {
                let scale = vmulq_f32(of_weights::<P, N>(&step.scale, r, q), of_x);
                *total = vfmaq_f32(*total, vcvtq_f32_s32(sum), scale);
            }
        }
    }
    match kind {
        Kind::Offset(_) => {}
        Kind::Minimum => take_off::<P, N>(&step.minima[0], x.offsets.map(|x| x.minus), totals),
        Kind::TwoMinima => {
            take_off::<P, N>(&step.minima[0], x.offsets.map(|x| x.halves[0]), totals);
            take_off::<P, N>(&step.minima[1], x.offsets.map(|x| x.halves[1]), totals);
        }
    }
}

/// Takes minima off, given the negative sums of activations.
#[inline(always)]
fn take_off<P: Products, const N: usize>(minima: &Lanes, of: [f32; N], totals: &mut [Row<float32x4_t>; N]) {
    for (r, totals) in totals.iter_mut().enumerate() {
        let of_x = of_x::<P, N>(of, r);
        for (q, total) in totals.iter_mut().enumerate() {
            // SAFETY: NEON.
            *total = unsafe { vfmaq_f32(*total, of_weights::<P, N>(minima, r, q), of_x) };
        }
    }
}

/// Adds to y, or stores if `fresh`, Σ over steps of scale · scale · Σ code · quant, less the minima, for a tile of weights and a panel
/// of `M` rows of activations. The products are those in y from the row and column `at` on.
pub(super) fn add<const M: usize>(
    level: Level,
    format: Format,
    steps: &[Step],
    x: Panel<'_, M>,
    fresh: bool,
    y: &mut MatMut<'_, f32>,
    at: (usize, usize),
) {
    let kind = format.kind(true);
    match level {
        // SAFETY: this level exists only after i8mm and dotprod were detected.
        Level::NeonI8mm => by_rows(unsafe { Matrices::new_unchecked() }, kind, steps, x, fresh, y, at),
        // SAFETY: this level exists only after dotprod was detected.
        Level::NeonDotProd => by_rows(unsafe { Dots::new_unchecked() }, kind, steps, x, fresh, y, at),
        // This many products of 127 and codes of these bits fit 16 bits.
        _ => match format.bits() {
            4 | 5 => by_rows(Narrow::<8>, kind, steps, x, fresh, y, at),
            6 => by_rows(Narrow::<4>, kind, steps, x, fresh, y, at),
            _ => by_rows(Narrow::<2>, kind, steps, x, fresh, y, at),
        },
    }
}

/// At most four rows of activations are multiplied by a step at a time, so that the sums stay in registers.
fn by_rows<P: Products, const M: usize>(
    p: P,
    kind: Kind,
    steps: &[Step],
    x: Panel<'_, M>,
    fresh: bool,
    y: &mut MatMut<'_, f32>,
    at: (usize, usize),
) {
    match M {
        1 => add_steps::<P, 1>(p, kind, steps, x.regrouped(), (fresh, M), y, at),
        2 => add_steps::<P, 2>(p, kind, steps, x.regrouped(), (fresh, M), y, at),
        _ => add_steps::<P, 4>(p, kind, steps, x.regrouped(), (fresh, M), y, at),
    }
}

/// The most rows of a panel.
const MAX_ROWS: usize = 8;

/// Adds the products of all steps with `m` rows of activations, `N` at a time.
#[inline(never)]
fn add_steps<P: Products, const N: usize>(
    p: P,
    kind: Kind,
    steps: &[Step],
    x: Panel<'_, N>,
    (fresh, m): (bool, usize),
    y: &mut MatMut<'_, f32>,
    (i, j): (usize, usize),
) {
    // SAFETY: NEON.
    let mut totals = [[unsafe { vdupq_n_f32(0.0) }; 4]; MAX_ROWS];
    let totals = &mut totals[..m];
    if !fresh {
        for (r, totals) in totals.iter_mut().enumerate() {
            *totals = load(&y.row_mut(i + r)[j..]);
        }
        exchange::<P, N>(totals);
    }
    let mut groups = x.blocks();
    for step in steps {
        for (totals, x) in totals.as_chunks_mut::<N>().0.iter_mut().zip(&mut groups) {
            add_step(p, kind, step, x, totals);
        }
    }
    exchange::<P, N>(totals);
    for (r, totals) in totals.iter().enumerate() {
        store(*totals, &mut y.row_mut(i + r)[j..]);
    }
}

/// Moves numbers from the places of [`matrices`] to their own, or back.
fn exchange<P: Products, const N: usize>(totals: &mut [Row<float32x4_t>]) {
    if !matrices::<P, N>() {
        return;
    }
    for [a, b] in totals.as_chunks_mut::<2>().0 {
        for (a, b) in a.iter_mut().zip(b) {
            // SAFETY: NEON.
            unsafe {
                let both = halves([vreinterpretq_s64_f32(*a), vreinterpretq_s64_f32(*b)]);
                [*a, *b] = both.map(|half| vreinterpretq_f32_s64(half));
            }
        }
    }
}

/// Sixteen numbers of y, or as many as there are.
fn load(y: &[f32]) -> Row<float32x4_t> {
    let mut lanes = [0.0; TILE_ROWS];
    lanes.iter_mut().zip(y).for_each(|(lane, y)| *lane = *y);
    // SAFETY: four of sixteen f32.
    core::array::from_fn(|q| unsafe { vld1q_f32(lanes.as_ptr().add(4 * q)) })
}

/// Stores sixteen numbers, or as many as y has.
fn store(totals: Row<float32x4_t>, y: &mut [f32]) {
    let mut lanes = [0.0; TILE_ROWS];
    for (q, total) in totals.into_iter().enumerate() {
        // SAFETY: four of sixteen f32.
        unsafe { vst1q_f32(lanes.as_mut_ptr().add(4 * q), total) };
    }
    y.iter_mut().zip(lanes).for_each(|(y, lane)| *y = lane);
}
