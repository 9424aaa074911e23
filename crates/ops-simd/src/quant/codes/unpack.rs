//! Sixteen rows of blocks as codes: a small piece for each format.
//!
//! A weight is `scale · code − minimum`, with one scale for each step of 32 weights. Codes are those of the file, where a byte can
//! hold them together with the integer scale of their group of sixteen. Only those of q6_k cannot be: they are rounded.

use super::words::{Lanes, Target, Words, product, scaled};
use super::{CodeFormat, Step};

/// The highest bit of every byte.
const SIGNS: u32 = 0x8080_8080;

/// Unpacks a block of each of sixteen rows, which are `stride` bytes apart.
#[inline(always)]
pub(super) fn block<T: Target>(t: T, format: CodeFormat, from: &[u8], stride: usize, to: &mut [Step]) {
    match format {
        CodeFormat::Q8_0 => signed(t, from, stride, 2, t.halves(head(t, from, stride)), to),
        CodeFormat::Q8_1 => signed(t, from, stride, 4, t.halves(head(t, from, stride)), to),
        CodeFormat::Q8K => signed(t, from, stride, 4, head(t, from, stride).floats(), to),
        CodeFormat::Q4_0 => q4_0(t, from, stride, to),
        CodeFormat::Q4_1 => q4_1(t, from, stride, to),
        CodeFormat::Q5_0 => q5_0(t, from, stride, to),
        CodeFormat::Q5_1 => q5_1(t, from, stride, to),
        CodeFormat::Q2K => q2_k(t, from, stride, to),
        CodeFormat::Q3K => q3_k(t, from, stride, to),
        CodeFormat::Q4K => q4_k(t, from, stride, to),
        CodeFormat::Q5K => q5_k(t, from, stride, to),
        CodeFormat::Q6K => q6_k(t, from, stride, to),
        CodeFormat::Iq4Nl => iq4_nl(t, from, stride, to),
        CodeFormat::Iq4Xs => iq4_xs(t, from, stride, to),
        CodeFormat::Mxfp4 => mxfp4(t, from, stride, to),
    }
}

/// The first word of each block.
#[inline(always)]
fn head<T: Target>(t: T, from: &[u8], stride: usize) -> Words {
    t.word(from, stride, 0)
}

/// Eight words of each block.
#[inline(always)]
fn eight<T: Target>(t: T, from: &[u8], stride: usize, at: usize) -> [Words; 8] {
    let [a, b, c, d] = t.four(from, stride, at);
    let [e, f, g, h] = t.four(from, stride, at + 16);
    [a, b, c, d, e, f, g, h]
}

/// Signed bytes from byte `at` on: an offset of 128.
#[inline(always)]
fn signed<T: Target>(t: T, from: &[u8], stride: usize, at: usize, scale: Lanes, to: &mut [Step]) {
    for (s, step) in to.iter_mut().enumerate() {
        let words = eight(t, from, stride, at + 32 * s);
        for g in 0..8 {
            step.codes[g] = words[g].map(|word| word ^ SIGNS);
        }
        step.scale = scale;
    }
}

/// Sixteen bytes of codes of four bits, the low halves first.
#[inline(always)]
fn nibbles<T: Target>(t: T, from: &[u8], stride: usize, at: usize) -> [Words; 8] {
    let [a, b, c, d] = t.four(from, stride, at);
    let (low, high) = (|words: Words| words.field(0, 15), |words: Words| words.field(4, 15));
    [low(a), low(b), low(c), low(d), high(a), high(b), high(c), high(d)]
}

/// The table's entries for such codes.
#[inline(always)]
fn levels<T: Target>(t: T, from: &[u8], stride: usize, at: usize, table: &[u8; 16], step: &mut Step) {
    step.codes = nibbles(t, from, stride, at);
    for codes in &mut step.codes {
        *codes = t.lookup(table, *codes);
    }
}

#[inline(always)]
fn q4_0<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let [step] = to else { return };
    step.codes = nibbles(t, from, stride, 2);
    step.scale = t.halves(head(t, from, stride));
    step.minima[0] = scaled(step.scale, 8.0);
}

#[inline(always)]
fn q4_1<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let [step] = to else { return };
    let head = head(t, from, stride);
    step.codes = nibbles(t, from, stride, 4);
    step.scale = t.halves(head);
    step.minima[0] = scaled(t.halves(head.map(|word| word >> 16)), -1.0);
}

/// Codes of five bits, whose highest are the bits of the word at `at`; the others follow.
#[inline(always)]
fn five_bits<T: Target>(t: T, from: &[u8], stride: usize, at: usize) -> [Words; 8] {
    let high = t.word(from, stride, at);
    let mut codes = nibbles(t, from, stride, at + 4);
    for (g, codes) in codes.iter_mut().enumerate() {
        // Four bits, one for each byte: bit i goes to bit 8 i + 4.
        let bits = high.map(|word| (word >> (4 * g) & 15).wrapping_mul(0x0020_4081) & 0x0101_0101);
        *codes = codes.or(bits.map(|word| word << 4));
    }
    codes
}

#[inline(always)]
fn q5_0<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let [step] = to else { return };
    step.codes = five_bits(t, from, stride, 2);
    step.scale = t.halves(head(t, from, stride));
    step.minima[0] = scaled(step.scale, 16.0);
}

#[inline(always)]
fn q5_1<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let [step] = to else { return };
    let head = head(t, from, stride);
    step.codes = five_bits(t, from, stride, 4);
    step.scale = t.halves(head);
    step.minima[0] = scaled(t.halves(head.map(|word| word >> 16)), -1.0);
}

#[inline(always)]
fn iq4_nl<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let [step] = to else { return };
    levels(t, from, stride, 2, &LEVELS, step);
    step.scale = t.halves(head(t, from, stride));
}

/// The levels of iq4_nl and iq4_xs, with an offset of 128.
const LEVELS: [u8; 16] = {
    let levels: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
    let (mut out, mut i) = ([0; 16], 0);
    while i < 16 {
        out[i] = levels[i] as u8 ^ 0x80;
        i += 1;
    }
    out
};

#[inline(always)]
fn iq4_xs<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let [head, low, ..] = t.four(from, stride, 0);
    let scale = t.halves(head);
    for (s, step) in to.iter_mut().enumerate() {
        levels(t, from, stride, 8 + 16 * s, &LEVELS, step);
        let factor = low.map(|word| word >> (4 * s) & 15).or(head.map(|word| word >> (16 + 2 * s) << 4 & 48));
        step.scale = product(scale, factor.map(|factor| factor.wrapping_sub(32)).numbers());
    }
}

/// Twice the floats that the codes of mxfp4 stand for, with an offset of 12.
const FLOATS: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

#[inline(always)]
fn mxfp4<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let [step] = to else { return };
    levels(t, from, stride, 1, &FLOATS, step);
    // Half of 2^(exponent − 127), of which exponents 0 and 1 are subnormal.
    let half_power =
        |exponent: u32| if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 };
    step.scale = head(t, from, stride).byte(0).map(half_power).floats();
    step.minima[0] = scaled(step.scale, 12.0);
}

/// Scales and minima of eight steps from twelve bytes of six-bit numbers, in units that are f16.
#[inline(always)]
fn six_bit_scales<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let [units, low, high, rest] = t.four(from, stride, 0);
    let (scale, min) = (t.halves(units), t.halves(units.map(|word| word >> 16)));
    let top = |words: Words| words.field(2, 0x30);
    let scales = [low.field(0, 63), rest.field(0, 15).or(top(low))];
    let minima = [high.field(0, 63), rest.field(4, 15).or(top(high))];
    for (s, step) in to.iter_mut().enumerate() {
        step.scale = product(scale, scales[s / 4].byte(s % 4).numbers());
        step.minima[0] = product(min, minima[s / 4].byte(s % 4).numbers());
    }
}

#[inline(always)]
fn q4_k<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    for (pair, steps) in to.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let words = eight(t, from, stride, 16 + 32 * pair);
        for g in 0..8 {
            steps[0].codes[g] = words[g].field(0, 15);
            steps[1].codes[g] = words[g].field(4, 15);
        }
    }
    six_bit_scales(t, from, stride, to);
}

#[inline(always)]
fn q5_k<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let high = eight(t, from, stride, 16);
    for (pair, steps) in to.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let words = eight(t, from, stride, 48 + 32 * pair);
        for (half, step) in steps.iter_mut().enumerate() {
            let s = (2 * pair + half) as u32;
            for g in 0..8 {
                let top = high[g].field(s, 1).map(|word| word << 4);
                step.codes[g] = words[g].field(4 * half as u32, 15).or(top);
            }
        }
    }
    six_bit_scales(t, from, stride, to);
}

/// Two-bit codes, times the scale of their group of sixteen: at most 45.
#[inline(always)]
fn q2_k<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let groups = t.four(from, stride, 0);
    let units = t.word(from, stride, 80);
    let (scale, min) = (t.halves(units), t.halves(units.map(|word| word >> 16)));
    for (half, steps) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let words = eight(t, from, stride, 16 + 32 * half);
        for (s, step) in steps.iter_mut().enumerate() {
            let group = |h: usize| groups[half * 2 + s / 2].byte(2 * (s % 2) + h);
            step.scale = scale;
            for h in 0..2 {
                let factor = group(h).field(0, 15);
                for g in 4 * h..4 * h + 4 {
                    step.codes[g] = words[g].field(2 * s as u32, 3).times(factor);
                }
                step.minima[h] = product(min, group(h).field(4, 15).numbers());
            }
        }
    }
}

/// Three-bit codes, times the scale of their group of sixteen: from −124 to 128, and an offset of 124.
#[inline(always)]
fn q3_k<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let high = eight(t, from, stride, 0);
    let [_, low0, low1, top] = t.four(from, stride, 92);
    // The scale ends the block, so the word that ends with it is read.
    let last = t.word(from, stride, 106);
    let scale = t.halves(last.map(|word| word >> 16));
    let low = [low0.field(0, 15), low1.field(0, 15), low0.field(4, 15), low1.field(4, 15)];
    for (half, steps) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let words = eight(t, from, stride, 32 + 32 * half);
        for (at, step) in steps.iter_mut().enumerate() {
            let s = 4 * half + at;
            for h in 0..2 {
                let group = 2 * s + h;
                let four = low[group / 4].or(top.field(2 * (group / 4) as u32, 3).map(|word| word << 4));
                let factor = four.byte(group % 4).map(|factor| factor.wrapping_sub(32));
                // Of every byte: 124 − 4 times the scale.
                let rest = factor
                    .map(|factor| 124u32.wrapping_sub(factor.wrapping_mul(4)).wrapping_mul(0x0101_0101));
                for g in 4 * h..4 * h + 4 {
                    let third = high[g].field(s as u32, 1).map(|word| word << 2);
                    let codes = words[g].field(2 * at as u32, 3).or(third);
                    step.codes[g] = codes.times(factor).plus(rest);
                }
            }
            step.scale = scale;
            step.minima[0] = scaled(scale, 124.0);
        }
    }
}

/// Six-bit codes, rounded to bytes in units of the larger scale of two groups.
#[inline(always)]
fn q6_k<T: Target>(t: T, from: &[u8], stride: usize, to: &mut [Step]) {
    let groups = t.four(from, stride, 192);
    // The scale ends the block, so the word that ends with it is read.
    let last = t.word(from, stride, 206);
    let unit = scaled(t.halves(last.map(|word| word >> 16)), 32.0 / 127.0);
    for (half, steps) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let high = eight(t, from, stride, 128 + 32 * half);
        for (at, step) in steps.iter_mut().enumerate() {
            let s = 4 * half + at;
            let low = eight(t, from, stride, 64 * half + 32 * (at % 2));
            let shift = 4 * (at / 2) as u32;
            let up = 24 - 16 * (s % 2);
            let signed = |up: usize| groups[s / 2].map(|word| ((word << up) as i32 >> 24) as u32).numbers();
            let (first, second) = (signed(up), signed(up - 8));
            let mut largest = [0.0f32; 16];
            for ((largest, a), b) in largest.iter_mut().zip(first).zip(second) {
                *largest = a.abs().max(b.abs());
            }
            for (h, factor) in [first, second].into_iter().enumerate() {
                let steps = ratio(factor, largest);
                for g in 4 * h..4 * h + 4 {
                    let top = high[g].field(2 * at as u32, 3).map(|word| word << 4);
                    step.codes[g] = rounded(low[g].field(shift, 15).or(top), steps);
                }
            }
            step.scale = product(unit, largest);
        }
    }
}

/// 256 times the steps of a byte that a code's step takes, at most 127 / 32 of them.
#[inline(always)]
fn ratio(factor: Lanes, largest: Lanes) -> Words {
    let mut out = Words::splat(0);
    for ((out, factor), largest) in out.0.iter_mut().zip(factor).zip(largest) {
        let exact = factor / largest.max(1.0) * (127.0 * 256.0 / 32.0);
        // Adding 1.5 · 2²³ rounds to an integer, which the low bits then are.
        *out = (exact + 12_582_912.0).to_bits().wrapping_sub(12_582_912f32.to_bits());
    }
    out
}

/// `(code − 32) · steps / 256` to nearest, with an offset of 128. Each half of a word computes with 16 bits.
#[inline(always)]
fn rounded(codes: Words, steps: Words) -> Words {
    let rest = steps
        .map(|steps| (128 * 256 + 128u32).wrapping_sub(steps.wrapping_mul(32)).wrapping_mul(0x0001_0001));
    let product = |codes: Words| codes.times(steps).plus(rest);
    let even = product(codes.map(|word| word & 0x00ff_00ff)).map(|word| word >> 8 & 0x00ff_00ff);
    let odd = product(codes.map(|word| word >> 8 & 0x00ff_00ff)).map(|word| word & 0xff00_ff00);
    even.or(odd)
}
