//! Sixteen rows of blocks as codes: a small piece for each format.
//!
//! A weight is `scale · code − minimum`, with one scale for each step of 32 weights. Codes are those of the
//! file, times the integer scale of their group of sixteen where a byte can hold the product, unless the
//! target multiplies groups. Those of q6_k do not fit a byte with their scale: they are rounded unless the
//! target multiplies groups.
// A group of lanes has the same index in codes, words and factors.
#![allow(clippy::needless_range_loop)]

use super::words::{Lanes, Target, Vector};
use super::{Format, Step};

/// The highest bit of every byte.
const SIGNS: u32 = 0x8080_8080;

/// Unpacks a block of each of sixteen rows, which are `stride` bytes apart.
#[inline(always)]
pub(super) fn block<T: Target>(t: T, format: Format, from: &[u8], stride: usize, to: &mut [Step]) {
    let b = Block { t, from, stride };
    match (format, to) {
        (Format::Q8_0, to) => b.signed(2, t.halves(b.head()).lanes(), to),
        (Format::Q8_1, to) => b.signed(4, t.halves(b.head()).lanes(), to),
        (Format::Q8K, to) => b.signed(4, b.head().lanes(), to),
        (Format::Q4_0, [step]) => b.q4_0(step),
        (Format::Q4_1, [step]) => b.q4_1(step),
        (Format::Q5_0, [step]) => b.q5_0(step),
        (Format::Q5_1, [step]) => b.q5_1(step),
        (Format::Iq4Nl, [step]) => b.iq4_nl(step),
        (Format::Mxfp4, [step]) => b.mxfp4(step),
        (Format::Q2K, to) => b.q2_k(to),
        (Format::Q3K, to) => b.q3_k(to),
        (Format::Q4K, to) => b.q4_k(to),
        (Format::Q5K, to) => b.q5_k(to),
        (Format::Q6K, to) => b.q6_k(to),
        (Format::Iq4Xs, to) => b.iq4_xs(to),
        _ => {}
    }
}

/// The levels of iq4_nl and iq4_xs, with these bits flipped.
const fn levels(flipped: u8) -> [u8; 16] {
    let levels: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
    let (mut out, mut i) = ([0; 16], 0);
    while i < 16 {
        out[i] = levels[i] as u8 ^ flipped;
        i += 1;
    }
    out
}

/// The same with an offset of 128, and as signed bytes.
const LEVELS: [[u8; 16]; 2] = [levels(0x80), levels(0)];

/// Twice the floats that the codes of mxfp4 stand for, with an offset of 12.
const FLOATS: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// A block of each row.
#[derive(Clone, Copy)]
struct Block<'a, T> {
    t: T,
    from: &'a [u8],
    stride: usize,
}

impl<T: Target> Block<'_, T> {
    #[inline(always)]
    fn word(self, at: usize) -> T::V {
        self.t.word(self.from, self.stride, at)
    }

    /// The first word of each block.
    #[inline(always)]
    fn head(self) -> T::V {
        self.word(0)
    }

    #[inline(always)]
    fn four(self, at: usize) -> [T::V; 4] {
        self.t.four(self.from, self.stride, at)
    }

    /// Eight words of each block.
    #[inline(always)]
    fn eight(self, at: usize) -> [T::V; 8] {
        let ([a, b, c, d], [e, f, g, h]) = (self.four(at), self.four(at + 16));
        [a, b, c, d, e, f, g, h]
    }

    /// Flips codes of eight bits into those that the target uses ([`Target::signed_bytes`]).
    #[inline(always)]
    fn flip(self) -> T::V {
        T::V::splat(if self.t.signed_bytes() { SIGNS } else { 0 })
    }

    /// The levels of iq4_nl and iq4_xs.
    #[inline(always)]
    fn levels(self) -> Option<&'static [u8; 16]> {
        Some(&LEVELS[usize::from(self.t.signed_bytes())])
    }

    /// Signed bytes from byte `at` on: an offset of 128.
    #[inline(always)]
    fn signed(self, at: usize, scale: Lanes, to: &mut [Step]) {
        for (s, step) in to.iter_mut().enumerate() {
            let words = self.eight(at + 32 * s);
            for g in 0..8 {
                step.codes[g] = words[g].xor(T::V::splat(SIGNS)).xor(self.flip()).store();
            }
            step.scale = scale;
        }
    }

    /// Sixteen bytes of codes of four bits, the low halves first.
    #[inline(always)]
    fn nibbles(self, at: usize) -> [T::V; 8] {
        let [a, b, c, d] = self.four(at);
        let (low, high) = (|words: T::V| words.field(0, 15), |words: T::V| words.field(4, 15));
        [low(a), low(b), low(c), low(d), high(a), high(b), high(c), high(d)]
    }

    /// Codes of four bits, as they are or looked up in a table.
    #[inline(always)]
    fn four_bits(self, at: usize, table: Option<&[u8; 16]>, step: &mut Step) {
        let codes = self.nibbles(at);
        for g in 0..8 {
            step.codes[g] = table.map_or(codes[g], |table| self.t.lookup(table, codes[g])).store();
        }
    }

    #[inline(always)]
    fn q4_0(self, step: &mut Step) {
        self.four_bits(2, None, step);
        self.symmetric(Format::Q4_0, step);
    }

    /// A scale in the first half word, and codes with an offset.
    #[inline(always)]
    fn symmetric(self, format: Format, step: &mut Step) {
        self.offset(format, self.t.halves(self.head()), step);
    }

    /// A scale, and codes with an offset, which may become 128.
    #[inline(always)]
    fn offset(self, format: Format, scale: T::V, step: &mut Step) {
        step.scale = scale.lanes();
        if self.t.signed() {
            let more = T::V::splat(u32::from_ne_bytes([128 - format.offset(); 4]));
            for codes in &mut step.codes {
                *codes = T::V::load(*codes).plus(more).xor(self.flip()).store();
            }
        }
    }

    /// A scale and a minimum in the first word.
    #[inline(always)]
    fn asymmetric(self, step: &mut Step) {
        let head = self.head();
        step.scale = self.t.halves(head).lanes();
        step.minima[0] = self.t.halves(head.right(16)).scaled(-1.0).lanes();
    }

    #[inline(always)]
    fn q4_1(self, step: &mut Step) {
        self.four_bits(4, None, step);
        self.asymmetric(step);
    }

    /// Codes of five bits, whose highest bits are in the word at `at`; the others follow.
    #[inline(always)]
    fn five_bits(self, at: usize, step: &mut Step) {
        let (high, codes) = (self.word(at), self.nibbles(at + 4));
        for g in 0..8 {
            // Four bits, one for each byte: bit i goes to bit 8 i + 4.
            let four = high.right(4 * g as u32).and(T::V::splat(15)).times(T::V::splat(0x0020_4081));
            step.codes[g] = codes[g].or(four.and(T::V::splat(0x0101_0101)).left(4)).store();
        }
    }

    #[inline(always)]
    fn q5_0(self, step: &mut Step) {
        self.five_bits(2, step);
        self.symmetric(Format::Q5_0, step);
    }

    #[inline(always)]
    fn q5_1(self, step: &mut Step) {
        self.five_bits(4, step);
        self.asymmetric(step);
    }

    #[inline(always)]
    fn iq4_nl(self, step: &mut Step) {
        self.four_bits(2, self.levels(), step);
        step.scale = self.t.halves(self.head()).lanes();
    }

    #[inline(always)]
    fn iq4_xs(self, to: &mut [Step]) {
        let [head, low, ..] = self.four(0);
        let scale = self.t.halves(head);
        for (s, step) in to.iter_mut().enumerate() {
            self.four_bits(8 + 16 * s, self.levels(), step);
            let top = head.right(16 + 2 * s as u32).left(4).and(T::V::splat(48));
            let factor = low.right(4 * s as u32).and(T::V::splat(15)).or(top);
            step.scale = scale.fmul(factor.plus(T::V::splat(32u32.wrapping_neg())).to_floats()).lanes();
        }
    }

    #[inline(always)]
    fn mxfp4(self, step: &mut Step) {
        self.four_bits(1, Some(&FLOATS), step);
        // Half of 2^(exponent − 127), of which exponents 0 and 1 are subnormal.
        let mut bits = self.head().byte(0).store();
        for bits in &mut bits.0 {
            *bits = if *bits < 2 { 0x0020_0000 << *bits } else { (*bits - 1) << 23 };
        }
        self.offset(Format::Mxfp4, T::V::load(bits), step);
    }

    /// Scales and minima of eight steps from twelve bytes of six-bit numbers, in units that are f16.
    #[inline(always)]
    fn six_bit_scales(self, to: &mut [Step]) {
        let [units, low, high, rest] = self.four(0);
        let (scale, min) = (self.t.halves(units), self.t.halves(units.right(16)));
        let scales = [low.field(0, 63), rest.field(0, 15).or(low.field(2, 0x30))];
        let minima = [high.field(0, 63), rest.field(4, 15).or(high.field(2, 0x30))];
        for (s, step) in to.iter_mut().enumerate() {
            step.scale = scale.fmul(scales[s / 4].byte(s % 4).to_floats()).lanes();
            step.minima[0] = min.fmul(minima[s / 4].byte(s % 4).to_floats()).lanes();
        }
    }

    #[inline(always)]
    fn q4_k(self, to: &mut [Step]) {
        for (pair, steps) in to.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let words = self.eight(16 + 32 * pair);
            for g in 0..8 {
                steps[0].codes[g] = words[g].field(0, 15).store();
                steps[1].codes[g] = words[g].field(4, 15).store();
            }
        }
        self.six_bit_scales(to);
    }

    #[inline(always)]
    fn q5_k(self, to: &mut [Step]) {
        let high = self.eight(16);
        for (pair, steps) in to.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let words = self.eight(48 + 32 * pair);
            for g in 0..8 {
                for (half, step) in steps.iter_mut().enumerate() {
                    let top = high[g].field((2 * pair + half) as u32, 1).left(4);
                    step.codes[g] = words[g].field(4 * half as u32, 15).or(top).store();
                }
            }
        }
        self.six_bit_scales(to);
    }

    /// Two-bit codes, times the scale of their group of sixteen: at most 45.
    #[inline(always)]
    fn q2_k(self, to: &mut [Step]) {
        let (groups, units) = (self.four(0), self.word(80));
        let (scale, min) = (self.t.halves(units), self.t.halves(units.right(16)));
        for (half, steps) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let words = self.eight(16 + 32 * half);
            for (s, step) in steps.iter_mut().enumerate() {
                step.scale = scale.lanes();
                for h in 0..2 {
                    let group = groups[half * 2 + s / 2].byte(2 * (s % 2) + h);
                    let factor = group.field(0, 15);
                    for g in 4 * h..4 * h + 4 {
                        step.codes[g] = words[g].field(2 * s as u32, 3).times(factor).store();
                    }
                    step.minima[h] = min.fmul(group.field(4, 15).to_floats()).lanes();
                }
            }
        }
    }

    /// Three-bit codes, times the scale of their group of sixteen: from −124 to 128, and an offset of 124. Or groups.
    #[inline(always)]
    fn q3_k(self, to: &mut [Step]) {
        let (high, [_, low0, low1, top]) = (self.eight(0), self.four(92));
        // The scale ends the block, so the word that ends with it is read.
        let scale = self.t.halves(self.word(106).right(16));
        let low = [low0.field(0, 15), low1.field(0, 15), low0.field(4, 15), low1.field(4, 15)];
        for (half, steps) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let words = self.eight(32 + 32 * half);
            for (at, step) in steps.iter_mut().enumerate() {
                let s = 4 * half + at;
                step.scale = scale.lanes();
                for h in 0..2 {
                    let group = 2 * s + h;
                    let four = low[group / 4].or(top.field(2 * (group / 4) as u32, 3).left(4));
                    let factor = four.byte(group % 4).plus(T::V::splat(32u32.wrapping_neg()));
                    if self.t.groups() {
                        for g in 4 * h..4 * h + 4 {
                            step.codes[g] = three_bits(words[g], high[g], at, s).store();
                        }
                        step.minima[h] = twice(factor).lanes();
                        continue;
                    }
                    // Of every byte: 124 − 4 times the scale.
                    let each = factor.times(T::V::splat(4u32.wrapping_neg())).plus(T::V::splat(124));
                    let rest = each.times(T::V::splat(0x0101_0101));
                    for g in 4 * h..4 * h + 4 {
                        let codes = three_bits(words[g], high[g], at, s);
                        step.codes[g] = codes.times(factor).plus(rest).xor(self.flip()).store();
                    }
                }
                if self.t.groups() {
                    continue;
                }
                // Codes up to 252 have no room for an offset of 128.
                step.minima[0] =
                    scale.scaled(if self.t.signed_bytes() { 124.0 - 128.0 } else { 124.0 }).lanes();
            }
        }
    }

    /// Six-bit codes, which become bytes in units of the larger scale of two groups, rounded, unless the target takes groups.
    #[inline(always)]
    fn q6_k(self, to: &mut [Step]) {
        let groups = self.four(192);
        // The scale ends the block, so the word that ends with it is read.
        let scale = self.t.halves(self.word(206).right(16));
        let unit = scale.scaled(32.0 / 127.0);
        for (half, steps) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let high = self.eight(128 + 32 * half);
            for (at, step) in steps.iter_mut().enumerate() {
                let s = 4 * half + at;
                let low = self.eight(64 * half + 32 * (at % 2));
                let up = 24 - 16 * (s % 2) as u32;
                let factors = [0, 8].map(|less| groups[s / 2].left(up - less).highest());
                if self.t.groups() {
                    for g in 0..8 {
                        step.codes[g] = six_bits(low[g], high[g], at).store();
                    }
                    step.scale = scale.lanes();
                    step.minima = factors.map(|factor| twice(factor).lanes());
                    continue;
                }
                let factors = factors.map(|factor| factor.to_floats());
                let size = T::V::splat(0x7fff_ffff);
                let largest = factors[0].and(size).fmax(factors[1].and(size));
                for h in 0..2 {
                    let steps = ratio(factors[h], largest);
                    for g in 4 * h..4 * h + 4 {
                        let codes = six_bits(low[g], high[g], at);
                        step.codes[g] = rounded(codes, steps).xor(self.flip()).store();
                    }
                }
                step.scale = unit.fmul(largest).lanes();
            }
        }
    }
}

/// Codes of step `s` of q3_k, whose lower bits are field `at` of their word. No closure, because it must be inlined.
#[inline(always)]
fn three_bits<V: Vector>(low: V, high: V, at: usize, s: usize) -> V {
    low.field(2 * at as u32, 3).or(high.field(s as u32, 1).left(2))
}

/// Codes of step `at` of a half of q6_k. No closure, because it must be inlined.
#[inline(always)]
fn six_bits<V: Vector>(low: V, high: V, at: usize) -> V {
    low.field(4 * (at / 2) as u32, 15).or(high.field(2 * at as u32, 3).left(4))
}

/// Integers of 16 bits in both halves of their words.
#[inline(always)]
fn twice<V: Vector>(integers: V) -> V {
    integers.and(V::splat(0xffff)).or(integers.left(16))
}

/// 256 times the steps of a byte that a code's step takes, at most 127 / 32 of them.
#[inline(always)]
fn ratio<V: Vector>(factor: V, largest: V) -> V {
    let one = V::splat(1f32.to_bits());
    factor.fdiv(largest.fmax(one)).scaled(127.0 * 256.0 / 32.0).nearest()
}

/// `(code − 32) · steps / 256` to nearest, with an offset of 128. Each half of a word computes with 16 bits.
#[inline(always)]
fn rounded<V: Vector>(codes: V, steps: V) -> V {
    let rest = steps.times(V::splat(32u32.wrapping_neg())).plus(V::splat(128 * 256 + 128));
    let rest = rest.times(V::splat(0x0001_0001));
    let (low, high) = (V::splat(0x00ff_00ff), V::splat(0xff00_ff00));
    let even = codes.and(low).times(steps).plus(rest).right(8).and(low);
    let odd = codes.right(8).and(low).times(steps).plus(rest).and(high);
    even.or(odd)
}
